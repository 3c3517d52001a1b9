// What the memory of a program's workers depends on besides the program.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <vector>

#include "runtime/optimizer.h"
#include "runtime/precision.h"

namespace trireme {

/// When messages are taken by workers of another stage. Where it is not at once, what workers of one stage exchange is
/// held until the next exchange.
enum class Receivers {
  at_once,   ///< the least that a run may take
  one_late,  ///< when the next message goes the same way, or before, if the instruction lists leave no other order:
             ///< stages of equal speed
  latest,    ///< when the lists leave no other order: the most
};

struct MemoryOptions {
  int64_t batch = 1;  ///< samples of a step over all workers
  Precision precision = Precision::fp32;
  OptimizerConfig optimizer = {};  ///< of a training program
  /// By model input: what the data set gives. Empty: float32 for the first, indices (64 bit) for those after it.
  std::vector<c10::ScalarType> input_types = {};
  Receivers receivers = Receivers::one_late;
};

}  // namespace trireme
