// Which part of a batch each piece of its gradient is of: for norms of gradients of parts and of the whole.
#pragma once

#include <string>

#include "program/program.h"

namespace trireme {

/// Why a worker's own gradients are not gradients of some samples of the batch under this program; "" where they are.
/// Pieces are what the workers of a data axis contribute (under zero2 and zero3 of each micro-batch); with a single
/// worker its first micro-batch.
std::string obstacle_to_gradient_norms(const Program& program);

}  // namespace trireme
