// Proves on paper that a program ends: every receive meets its send, every group operation its partners.
#pragma once

#include "program/program.h"

namespace trireme {

/// Executes the instruction lists without tensors: sends complete at once, a receive waits for its sends, an operation of a group
/// for all its members. Throws a user error naming `where` and the cycle of ranks and instructions when none can go on, or an
/// instruction whose partner never comes.
void check_program(const Program& program, const Model& model, const std::string& where);

}  // namespace trireme
