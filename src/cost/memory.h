// Peak memory of each worker, as base/memory.h would count it in a run: the engine (program/engine.h) executes the
// worker's instruction list with the tensors' bytes in place of the tensors, each allocated and let go where the
// runtime does so. Bytes of layers' calls are those of LayerCosts::memory.
//
// There is no clock, so one thing must be supposed: a message lies in the sender's memory until its receiver has come
// to it (Receivers). Not counted: what a test set's batches add where they are larger, and what takes place outside
// steps (saving weights).
#pragma once

#include <span>
#include <vector>

#include "base/memory.h"
#include "cost/layer_costs.h"
#include "cost/memory_options.h"
#include "program/program.h"

namespace trireme {

/// Of `ranks`, in their order. `peak` and `at_peak` from the drawing of the initial values to a step with as many
/// batches in flight as there can be; `current` after it. Ranks with equal instruction lists and equal shares are
/// worked out once, so all of a plan for thousands of devices may be asked for; sim/simulate.h has representatives().
/// Reads the program only; `layers` is of the same model and precision.
std::vector<MemoryUse> predict_memory(const Program& program, const Model& model, const LayerCosts& layers,
                                      const MemoryOptions& options, std::span<const int> ranks);

}  // namespace trireme
