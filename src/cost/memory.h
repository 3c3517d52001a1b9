// Peak memory of each worker, as base/memory.h would count it in a run: the engine (program/engine.h) executes the worker's instruction
// list with the tensors' bytes in place of the tensors, each allocated and let go where the runtime does so. Bytes of layers' calls are those of
// LayerCosts::memory.
//
// There is no clock, so one thing must be supposed: a message lies in the sender's memory until its receiver has come to it (Receivers).
// Not counted: what a test set's batches add where they are larger, and what takes place outside steps (saving weights).
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/memory.h"
#include "cost/layer_costs.h"
#include "program/program.h"
#include "runtime/optimizer.h"
#include "runtime/precision.h"

namespace trireme {

/// When messages are taken by workers of another stage. Where it is not at once, what workers of one stage exchange is held until the
/// next exchange.
enum class Receivers {
  at_once,   ///< the least that a run may take
  one_late,  ///< when the next message goes the same way, or before, if the instruction lists leave no other order: stages of equal speed
  latest,    ///< when the lists leave no other order: the most
};

struct MemoryOptions {
  int64_t batch = 1;               ///< samples of a step over all workers
  Precision precision = Precision::fp32;
  OptimizerConfig optimizer = {};  ///< of a training program
  /// By model input: what the data set gives. Empty: float32 for the first, indices (64 bit) for those after it.
  std::vector<c10::ScalarType> input_types = {};
  Receivers receivers = Receivers::one_late;
};

/// Of `ranks`, in their order. `peak` and `at_peak` from the drawing of the initial values to a step with as many batches in flight as
/// there can be; `current` after it. Ranks with equal instruction lists and equal shares are worked out once, so all of a plan for
/// thousands of devices may be asked for; sim/simulate.h has representatives(). Reads the program only; `layers` is of the same model and
/// precision.
std::vector<MemoryUse> predict_memory(const Program& program, const Model& model, const LayerCosts& layers, const MemoryOptions& options,
                                      std::span<const int> ranks);

}  // namespace trireme
