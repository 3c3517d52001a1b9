// One program for samples of several shapes.
#pragma once

#include <string>

#include "program/program.h"

namespace trireme {

/// A program says nothing of sample shapes: compiled for `model`, it computes `other` as well where that is the same
/// model for samples of other shapes. Errors: internal, where the graphs differ; user, naming `where`: a parameter
/// whose shape goes with the samples', a layer that cannot be split for these shapes as the program splits it.
void check_runs(const Program& program, const Model& model, const Model& other, const std::string& where);

}  // namespace trireme
