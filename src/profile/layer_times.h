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

}  // namespace trireme
