// The program's verbs and options as plain data, read from the parser's declarations. Completion scripts and man pages
// are written from it, so that they have every verb and option that the program has.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/option_values.h"

namespace trireme {

struct OptionFacts {
  std::vector<std::string> names;  ///< "-o", "--output"; of an argument without a flag: its one name, "experiment"
  std::string value;               ///< what its value is called, "FILE" or "a|b"; empty: a flag without a value
  std::string default_value;       ///< empty: none, or the help says it
  std::string help;
  OfferedValues offered;
  bool is_required = false;
  bool is_repeatable = false;  ///< may be given several times
};

struct VerbFacts {
  std::string name;  ///< "trireme plan best"
  std::string path;  ///< the same without the program: "plan best"; "" for the program
  std::string help;
  std::string footer;  ///< text below the options; may be empty
  std::vector<OptionFacts> arguments;
  std::vector<OptionFacts> options;
  std::vector<VerbFacts> verbs;  ///< below it

  /// The last word of its path: "best".
  std::string last_word() const { return name.substr(name.rfind(' ') + 1); }
};

/// All that `app` declares but hidden options.
VerbFacts command_line_facts(const CLI::App& app);

/// The beginning of a help text that a menu has room for: up to its first explanation or example.
std::string summary(const std::string& help);

}  // namespace trireme
