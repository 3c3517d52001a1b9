// Under which titles the options of a verb, and the verbs of the program, stand in help pages.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace trireme {

/// Titles of options, in the order of a page.
std::vector<std::string> option_groups();
/// Titles of verbs, in the order of a page.
std::vector<std::string> verb_groups();

/// Gives all options and verbs of the program their titles. Call it once, when all are declared. Hidden options stay
/// hidden.
void group_options_and_verbs(CLI::App& program);

}  // namespace trireme
