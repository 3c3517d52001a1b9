// What the values of the program's options are called in help texts, and what shells offer to complete them with.
#pragma once

#include <CLI/CLI.hpp>
#include <compare>
#include <string>
#include <vector>

namespace trireme {

/// What completion offers for a value.
struct OfferedValues {
  std::vector<std::string> words;
  std::string files;  ///< "toml": folders and files with this ending; "*": all files; "/": folders only; "": no files
  bool is_list = false;  ///< the value is a list with commas; its last item is completed

  auto operator<=>(const OfferedValues&) const = default;  // NOLINT(modernize-use-nullptr): of clang 14, by mistake
};

/// Gives the values of all options of the verb, and of the verbs below it, names for the help texts: FILE instead of
/// TEXT. Call it once, when all options are declared.
void name_values(CLI::App& app);

/// Returns the choices of an option with CLI::IsMember; for other options, the values known by the option's name.
OfferedValues offered_values(const CLI::Option& option);

}  // namespace trireme
