// Checks whether the norms of partial gradients can be measured under a program.
#pragma once

#include <string>

#include "program/program.h"

namespace trireme {

/// Returns why the norms of partial gradients cannot be measured under this program, or "" if they can. A partial
/// gradient must be the gradient of a subset of the batch's samples: the contribution of one worker of a data axis
/// (under zero2 and zero3, its contribution of one micro-batch) or, with a single worker, the gradient of its first
/// micro-batch.
std::string obstacle_to_gradient_norms(const Program& program);

}  // namespace trireme
