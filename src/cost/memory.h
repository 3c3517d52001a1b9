// Peak memory of each worker, as base/memory.h counts it in a run. The engine (program/engine.h) executes the worker's
// instruction list with bytes in place of tensors. Each tensor is allocated and released where the runtime does so. The
// bytes of layer calls are those of LayerCosts::memory.
//
// There is no clock, so one assumption is needed: a message stays in the sender's memory until its receiver has
// received it (Receivers). Not counted: additional memory for larger batches of a test set, and work outside steps
// (saving weights).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/memory.h"
#include "cost/layer_costs.h"
#include "cost/memory_options.h"
#include "program/program.h"

namespace trireme {

/// Predicts the memory of `ranks`, in their order. `peak` and `at_peak` cover the time from the drawing of the initial
/// values to a step with the maximal number of batches in flight. `current` is the use after that step. Ranks with
/// equal instruction lists and equal shares are computed once, so a call for all ranks of a plan for thousands of
/// devices is cheap; see also representatives() in sim/simulate.h. Only reads the program. `layers` must be of the same
/// model and precision.
std::vector<MemoryUse> predict_memory(const Program& program, const Model& model, const LayerCosts& layers,
                                      const MemoryOptions& options, std::span<const int> ranks);

/// Returns the bytes at the peak that come and go within a step: activations and buffers.
int64_t changing_at_peak(const MemoryUse& use);

}  // namespace trireme
