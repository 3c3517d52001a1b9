#include "update/statistics.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "trireme/error.h"

namespace trireme {

void average_statistics(std::span<RunningStatistics> statistics, std::optional<double> weight,
                        std::span<const int> members, Hub& hub) {
  if (statistics.empty()) return;
  const auto average = [&](std::vector<at::Tensor>& tensors) {
    if (weight) hub.weighted_average(tensors, *weight, members);
    else hub.average(tensors, members);
  };
  std::vector<at::Tensor> means, spreads;
  for (const RunningStatistics& s : statistics) means.push_back(s.mean.clone());
  average(means);
  for (size_t i = 0; i < statistics.size(); ++i) {
    const at::Tensor distance = statistics[i].mean - means[i];
    spreads.push_back(statistics[i].variance + distance * distance);
  }
  average(spreads);
  for (size_t i = 0; i < statistics.size(); ++i) {
    statistics[i].mean.copy_(means[i]);
    statistics[i].variance.copy_(spreads[i]);
  }
}

void mix_statistics(std::span<RunningStatistics> statistics, std::span<const RunningStatistics> other, double share) {
  check_internal(statistics.size() == other.size(), "mixed statistics are of the same layers");
  for (size_t i = 0; i < statistics.size(); ++i) {
    RunningStatistics& mine = statistics[i];
    const at::Tensor distance = other[i].mean.to(mine.mean.device()) - mine.mean;
    mine.variance.lerp_(other[i].variance.to(mine.variance.device()), share)
        .add_(distance * distance, share * (1 - share));
    mine.mean.add_(distance, share);
  }
}

std::vector<at::Tensor> tensors_of(std::span<const RunningStatistics> statistics) {
  std::vector<at::Tensor> tensors;
  for (const RunningStatistics& s : statistics) tensors.insert(tensors.end(), {s.mean, s.variance});
  return tensors;
}

std::vector<RunningStatistics> statistics_of(std::span<const at::Tensor> tensors) {
  std::vector<RunningStatistics> statistics;
  for (size_t i = 0; i + 1 < tensors.size(); i += 2) statistics.push_back({tensors[i], tensors[i + 1]});
  return statistics;
}

std::vector<RunningStatistics> copies_of(std::span<const RunningStatistics> statistics) {
  std::vector<RunningStatistics> copies;
  for (const RunningStatistics& s : statistics) copies.push_back({s.mean.clone(), s.variance.clone()});
  return copies;
}

bool all_finite(std::span<const at::Tensor> tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [](const at::Tensor& tensor) { return at::isfinite(tensor).all().item<bool>(); });
}

void copy_statistics(std::span<const RunningStatistics> from, std::span<RunningStatistics> to) {
  for (size_t i = 0; i < to.size(); ++i) {
    to[i].mean.copy_(from[i].mean);
    to[i].variance.copy_(from[i].variance);
  }
}

}  // namespace trireme
