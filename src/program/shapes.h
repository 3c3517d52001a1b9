// Use of one program for samples of several shapes.
#pragma once

#include <string>

#include "program/program.h"

namespace trireme {

/// Checks that a program compiled for `model` can also compute `other`, the same model for samples of other shapes. A
/// program does not depend on sample shapes. Throws an internal error if the graphs differ. Throws a user error that
/// names `where` for a parameter whose shape depends on that of the samples, or a layer that cannot be split for these
/// shapes as the program splits it.
void check_runs(const Program& program, const Model& model, const Model& other, const std::string& where);

}  // namespace trireme
