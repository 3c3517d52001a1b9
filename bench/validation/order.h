// How well predictions put runs in order.
#pragma once

#include <vector>

namespace trireme::validation {

/// Kendall's rank correlation of two lists: 1 for the same order.
double kendall(const std::vector<double>& a, const std::vector<double>& b);

/// By how much the run that is predicted to be the fastest is slower than the fastest.
double regret(const std::vector<double>& published, const std::vector<double>& predicted);

}  // namespace trireme::validation
