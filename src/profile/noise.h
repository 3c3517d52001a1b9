// Random values for measurements.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace trireme {

/// Fills a dense tensor with standard normal numbers times `deviation`, or with integers from 0 to below - 1 if below >
/// 0. Numbers are copied from a pool larger than a core's own caches. The caches are then as after a layer that reads
/// as much as it writes. Thread-safe.
void fill_with_noise(at::Tensor& tensor, double deviation = 1, int64_t below = 0);

}  // namespace trireme
