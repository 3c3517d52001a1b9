// Measures the optimizer's pass, and what a core can do.
#pragma once

#include <string>
#include <vector>

#include "profile/profile.h"
#include "runtime/optimizer.h"
#include "runtime/precision.h"

namespace trireme {

/// What the pass's cost depends on: kind, precision, and the switches that add state. "adam fp32", "sgd momentum ema
/// bf16".
std::string update_name(const OptimizerConfig& optimizer, Precision precision);

/// By number of gradients that are summed. Layer-wise optimizers: the update with the trust known. Takes a fraction of
/// a second.
std::vector<UpdateMeasurement> measure_updates(const OptimizerConfig& optimizer, Precision precision,
                                               const std::vector<int>& contributors, int threads = 1);

/// The memory is what the process may use, divided among as many workers as there are cores.
DeviceMeasurement measure_device(int threads = 1);

}  // namespace trireme
