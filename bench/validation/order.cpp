#include "validation/order.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace trireme::validation {

double kendall(const std::vector<double>& a, const std::vector<double>& b) {
  int64_t same = 0, all = 0;
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      const double product = (a[i] - a[j]) * (b[i] - b[j]);
      same += product > 0 ? 1 : product < 0 ? -1 : 0;
      ++all;
    }
  return all == 0 ? 1 : double(same) / double(all);
}

double regret(const std::vector<double>& published, const std::vector<double>& predicted) {
  const size_t chosen = size_t(std::min_element(predicted.begin(), predicted.end()) - predicted.begin());
  return published[chosen] / *std::min_element(published.begin(), published.end()) - 1;
}

}  // namespace trireme::validation
