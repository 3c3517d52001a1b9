// The middle of values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace trireme {

/// Returns the value that `n` others precede in ascending order.
inline double nth_least(std::vector<double> values, size_t n) {
  std::nth_element(values.begin(), values.begin() + std::ptrdiff_t(n), values.end());
  return values[n];
}

/// Returns the middle value; of an even number of values the mean of both in the middle. There must be a value.
inline double median(const std::vector<double>& values) {
  return (nth_least(values, (values.size() - 1) / 2) + nth_least(values, values.size() / 2)) / 2;
}

}  // namespace trireme
