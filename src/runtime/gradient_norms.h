// Checks whether the norms of partial gradients can be measured under a program.
#pragma once

#include <string>

#include "program/program.h"

namespace trireme {

/// Returns the reason why a worker's own gradient is not the gradient of a subset of the batch's samples under this
/// program, or "" if it is. The pieces are the contributions of the workers of a data axis (under zero2 and zero3 one
/// per micro-batch). With a single worker the piece is its first micro-batch.
std::string obstacle_to_gradient_norms(const Program& program);

}  // namespace trireme
