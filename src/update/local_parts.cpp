#include "update/local_parts.h"

#include <ATen/ATen.h>

#include <utility>

#include "trireme/error.h"
#include "update/padding.h"
#include "update/statistics.h"

namespace trireme {
namespace {

/// Returns the runs and statistics that are local, or those that are not.
ModelValues part_of_state(const LocalParts& parts, const ReplicaState& state, bool local) {
  check_internal(parts.statistics.size() == state.statistics.size(), "the local parts are those of this state");
  ModelValues part;
  for (const LocalParts::Run& run : parts.runs)
    if (run.is_local == local) part.weights.push_back(state.weights[run.bucket].narrow(0, run.offset, run.elements));
  for (size_t s = 0; s < parts.statistics.size(); ++s)
    if (parts.statistics[s] == local) part.statistics.push_back(state.statistics[s]);
  return part;
}

}  // namespace

ReplicaState shared_part(const LocalParts& parts, const ReplicaState& state) {
  ModelValues values = part_of_state(parts, state, false);
  ReplicaState shared{.weights = std::move(values.weights), .moments = {}, .statistics = std::move(values.statistics)};
  size_t place = 0;  // in the shared weights
  for (const LocalParts::Run& run : parts.runs) {
    if (run.is_local) continue;
    for (const Range& range : padding_in(state, run.bucket, run.offset, run.elements))
      shared.padding.push_back({place, range.begin, range.size()});
    ++place;
  }
  return shared;
}

ModelValues local_part(const LocalParts& parts, const ReplicaState& state) { return part_of_state(parts, state, true); }

ModelValues joined(const LocalParts& parts, const ModelValues& shared, const ModelValues& local) {
  check_internal(shared.weights.size() + local.weights.size() == parts.runs.size() &&
                     shared.statistics.size() + local.statistics.size() == parts.statistics.size(),
                 "shared and local parts together are a whole state");
  ModelValues whole;
  auto next_shared = shared.weights.begin(), next_local = local.weights.begin();
  for (const LocalParts::Run& run : parts.runs) whole.weights.push_back(run.is_local ? *next_local++ : *next_shared++);
  auto shared_statistics = shared.statistics.begin(), local_statistics = local.statistics.begin();
  for (const bool is_local : parts.statistics)
    whole.statistics.push_back(is_local ? *local_statistics++ : *shared_statistics++);
  return whole;
}

ModelValues mean_of(const std::map<int, ModelValues>& parts) {
  check_internal(!parts.empty(), "a mean has members");
  const ModelValues& first = parts.begin()->second;
  ModelValues mean{.weights = {}, .statistics = copies_of(first.statistics)};
  for (size_t p = 0; p < first.weights.size(); ++p) {
    at::Tensor sum = at::zeros_like(first.weights[p], at::kDouble);
    for (const auto& [replica, part] : parts) sum.add_(part.weights[p]);
    mean.weights.push_back(sum.div_(double(parts.size())).to(first.weights[p].scalar_type()));
  }
  int64_t mixed = 0;
  for (const auto& [replica, part] : parts) {
    if (mixed > 0) mix_statistics(mean.statistics, part.statistics, 1.0 / double(mixed + 1));
    ++mixed;
  }
  return mean;
}

}  // namespace trireme
