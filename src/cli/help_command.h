// `trireme help`: the pages of --help, and lists of the names that experiments and plans may use.
#pragma once

#include <CLI/CLI.hpp>
#include <ostream>
#include <string>
#include <vector>

namespace trireme {

/// Makes --help of the program and of verbs that are added later print help_page.
void use_help_pages(CLI::App& program);

/// Adds the verb, and the end of the program's page. Call it after all other verbs: completion offers their names.
void add_help(CLI::App& program, std::vector<std::string>& words);

/// Prints the page of a verb, "plan best" as two words, or a list of names; the program's own page if there is no word.
/// Returns the exit code. Errors (user): an unknown verb.
int run_help(const CLI::App& program, const std::vector<std::string>& words, std::ostream& out);

}  // namespace trireme
