// Proves on paper that a program ends: every receive meets its send, every group operation its partners, and nothing
// that is sent is left over.
#pragma once

#include <string>

#include "program/program.h"

namespace trireme {

/// Executes the program (engine.h) without time: one batch, or enough batches to fill and drain a schedule without
/// flush. Throws a user error naming `where` and
/// - the cycle of ranks and instructions, when they wait for each other;
/// - the instruction whose partner never comes;
/// - the message that nobody receives.
void check_program(const Program& program, const Model& model, const std::string& where);

}  // namespace trireme
