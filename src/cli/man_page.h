// Manual pages in roff's man macros.
#pragma once

#include <string>

#include "cli/command_line.h"

namespace trireme {

/// trireme.1: the program, its verbs, exit codes and environment.
std::string program_man_page(const VerbFacts& program);

/// trireme-VERB.1, for a verb of the program; the verbs below it are parts of the page.
std::string verb_man_page(const VerbFacts& program, const VerbFacts& verb);

/// "trireme-plan"
std::string man_page_name(const VerbFacts& verb);

}  // namespace trireme
