// Made-up values.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace trireme {

/// Fills a tensor that lies densely in memory with standard normal numbers (times `deviation`), or with integers from 0 to below - 1
/// where below > 0. At the speed of a copy: values repeat, the same ones from every call.
void fill_with_noise(at::Tensor& tensor, double deviation = 1, int64_t below = 0);

}  // namespace trireme
