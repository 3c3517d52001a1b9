#include "update/replica_state.h"

#include <ATen/ATen.h>

namespace trireme {

ModelValues values_of(const ReplicaState& state) {
  ModelValues values;
  for (const at::Tensor& w : state.weights) values.weights.push_back(w.clone());
  for (const RunningStatistics& s : state.statistics) values.statistics.push_back({s.mean.clone(), s.variance.clone()});
  return values;
}

void write_values(const ModelValues& values, ReplicaState& state) {
  for (size_t b = 0; b < values.weights.size(); ++b) state.weights[b].copy_(values.weights[b]);
  for (size_t s = 0; s < values.statistics.size(); ++s) {
    state.statistics[s].mean.copy_(values.statistics[s].mean);
    state.statistics[s].variance.copy_(values.statistics[s].variance);
  }
}

}  // namespace trireme
