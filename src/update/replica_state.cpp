#include "trireme/replica_state.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "trireme/error.h"

namespace trireme {

ModelValues copy_of(const ModelValues& values) {
  return values_of({.weights = values.weights, .moments = {}, .statistics = values.statistics});
}

ModelValues values_of(const ReplicaState& state) {
  ModelValues values;
  for (const at::Tensor& w : state.weights) values.weights.push_back(w.clone());
  for (const RunningStatistics& s : state.statistics) values.statistics.push_back({s.mean.clone(), s.variance.clone()});
  return values;
}

void write_values(const ModelValues& values, ReplicaState& state) {
  size_t bucket = 0;
  int64_t written = 0;  // elements of the bucket
  for (const at::Tensor& part : values.weights)
    for (int64_t taken = 0; taken < part.numel();) {
      check_internal(bucket < state.weights.size(), "values have as many elements as the state's weights");
      const int64_t count = std::min(part.numel() - taken, state.weights[bucket].numel() - written);
      state.weights[bucket].narrow(0, written, count).copy_(part.narrow(0, taken, count));
      taken += count;
      written += count;
      if (written < state.weights[bucket].numel()) continue;
      ++bucket;
      written = 0;
    }
  for (size_t s = 0; s < values.statistics.size(); ++s) {
    state.statistics[s].mean.copy_(values.statistics[s].mean);
    state.statistics[s].variance.copy_(values.statistics[s].variance);
  }
}

}  // namespace trireme
