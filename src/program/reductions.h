// How gradients are reduced beside the backward, where links overlap it.
#pragma once

#include "program/program.h"

namespace trireme {

/// True if a gradient on its way to the other holders takes memory of its own, which optimizer sharding was to save, or
/// which rounding needs. Then a worker begins the next bucket's reduction only when the one before has ended.
inline bool reduces_one_at_a_time(const Program& program) {
  return program.optimizer_sharding >= OptimizerSharding::zero2 ||
         (program.optimizer_sharding != OptimizerSharding::none && program.compression.sends_bf16());
}

}  // namespace trireme
