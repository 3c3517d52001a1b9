// A quick profile: seconds of forward and backward per layer on one device.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/precision.h"
#include "trireme/model.h"

namespace trireme {

/// Seconds of forward + backward by node id (0 for inputs) at a batch of `samples`: the minimum of a few runs after a
/// warm-up. Each layer is an instruction of its own in a program for one device. `tokens`: "data" is token ids
/// (detected without this option if an embedding layer reads it). Runs on a thread of its own and takes a few steps'
/// time.
std::vector<double> profile_layers(const Model& model, Precision precision, int64_t samples, uint64_t seed,
                                   bool tokens = false);

/// A lower bound of the memory and the work that profile_layers needs.
struct ProfileWork {
  int64_t bytes = 0;  ///< weights, their gradients and copies, and the layers' outputs with their gradients
  double flops = 0;   ///< of all runs
};
ProfileWork profile_work(const Model& model, Precision precision, int64_t samples);

}  // namespace trireme
