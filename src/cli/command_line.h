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
  std::string group;  ///< title in a help page (cli/groups.h); empty: an argument
  OfferedValues offered;
  bool is_required = false;
  bool is_repeatable = false;  ///< may be given several times

  /// An argument in a usage line: "EXPERIMENT".
  std::string label() const;
};

struct VerbFacts {
  std::string name;  ///< "trireme plan best"
  std::string path;  ///< the same without the program: "plan best"; "" for the program
  std::string help;
  std::string group;                  ///< title in a help page
  std::string footer;                 ///< text below the options; may be empty
  std::vector<std::string> examples;  ///< commands
  std::vector<OptionFacts> arguments;
  std::vector<OptionFacts> options;
  std::vector<VerbFacts> verbs;  ///< below it

  /// The last word of its path: "best".
  std::string last_word() const { return name.substr(name.rfind(' ') + 1); }
};

/// Returns what `app`, the program or one of its verbs, declares; hidden options are left out.
VerbFacts command_line_facts(const CLI::App& app);

/// The option's help with its default value, and whether it may be given several times.
std::string full_help(const OptionFacts& option);

/// The text with capital letters; only ASCII letters change.
std::string upper(std::string text);

/// Returns the beginning of a help text, short enough for a menu: up to the first explanation or example.
std::string summary(const std::string& help);

}  // namespace trireme
