// How gradients are reduced while backward continues, if links overlap communication with computing.
#pragma once

#include "program/program.h"

namespace trireme {

/// True if a gradient that is being reduced needs extra memory: under zero2 and zero3, which exist to save it, or,
/// under zero1, for values rounded to bfloat16. A worker then begins the reduction of the next bucket only when the
/// previous one has ended.
inline bool reduces_one_at_a_time(const Program& program) {
  return program.optimizer_sharding >= OptimizerSharding::zero2 ||
         (program.optimizer_sharding != OptimizerSharding::none && program.compression.sends_bf16());
}

}  // namespace trireme
