// Measures the optimizer's pass and the speed of a core.
#pragma once

#include <string>
#include <vector>

#include "profile/profile.h"
#include "runtime/optimizer.h"
#include "runtime/precision.h"

namespace trireme {

/// The facts that the cost of the pass depends on: kind, precision, and the options that add state. "adam fp32", "sgd
/// momentum ema bf16".
std::string update_name(const OptimizerConfig& optimizer, Precision precision);

/// One measurement per number of summed gradients. Layer-wise optimizers: the update with known trust ratios. Takes a
/// fraction of a second.
std::vector<UpdateMeasurement> measure_updates(const OptimizerConfig& optimizer, Precision precision,
                                               const std::vector<int>& contributors, int threads = 1);

/// `memory` is the memory of this process divided by the number of cores.
DeviceMeasurement measure_device(int threads = 1);

/// Repeats the piece of work (base/devices/core_speed.h) for a fraction of a second and returns its fastest time, in
/// seconds; 0 on GPUs. The mean would depend on what other programs do: on a machine with other users it changed by
/// half.
double measure_core();

}  // namespace trireme
