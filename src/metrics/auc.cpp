#include "metrics/auc.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "trireme/error.h"

namespace trireme {

double area_under_roc(std::span<const double> scores, std::span<const int64_t> labels) {
  check_internal(scores.size() == labels.size(), "every score has a label");
  if (std::any_of(scores.begin(), scores.end(), [](double s) { return std::isnan(s); }))
    return std::numeric_limits<double>::quiet_NaN();
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] < scores[b]; });
  double positives = 0, rank_sum = 0;
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && scores[order[end]] == scores[order[begin]]) ++end;
    const double rank = (double(begin + 1) + double(end)) / 2;  // equal scores share the mean of their ranks
    for (size_t i = begin; i < end; ++i)
      if (labels[order[i]] == 1) {
        positives += 1;
        rank_sum += rank;
      }
    begin = end;
  }
  const double negatives = double(scores.size()) - positives;
  if (positives == 0 || negatives == 0) return std::numeric_limits<double>::quiet_NaN();
  return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives);
}

}  // namespace trireme
