// Checks that a program ends: each receive matches a send, each group operation has its partners, and every message is
// received.
#pragma once

#include <string>

#include "program/program.h"

namespace trireme {

/// Executes the program (engine.h) without time: one batch, or enough batches to fill and drain a schedule without
/// flush. Throws a user error that names `where` and
/// - the cycle of ranks and instructions, if they wait for each other;
/// - the instruction whose partner never takes part;
/// - the message that no rank receives.
void check_program(const Program& program, const Model& model, const std::string& where);

}  // namespace trireme
