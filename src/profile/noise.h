// Made-up values.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace trireme {

/// Fills a tensor that lies densely in memory with standard normal numbers (times `deviation`), or with integers from 0
/// to below - 1 where below > 0. Numbers are copied from a pool larger than a core's own caches, so that the caches are
/// as after a layer that reads as much as it writes. Thread-safe.
void fill_with_noise(at::Tensor& tensor, double deviation = 1, int64_t below = 0);

}  // namespace trireme
