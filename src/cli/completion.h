// Scripts with which a shell completes the program's command lines.
#pragma once

#include <string>
#include <vector>

#include "cli/command_line.h"

namespace trireme {

/// "bash", "zsh", "fish".
const std::vector<std::string>& completed_shells();

/// The script for one of completed_shells(). It contains the verbs, options, choices and kinds of files of this build
/// and does not start the program.
std::string completion_script(const std::string& shell, const VerbFacts& program);

}  // namespace trireme
