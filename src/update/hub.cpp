#include "trireme/hub.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "trireme/error.h"

namespace trireme {

double ShardServer::deadline(int) const { return std::numeric_limits<double>::infinity(); }

std::vector<int> Hub::checked(std::span<const int> members) const {
  std::vector<int> list(members.begin(), members.end());
  if (list.empty()) {
    list.resize(size_t(replicas_));
    std::iota(list.begin(), list.end(), 0);
    return list;
  }
  const bool ascending = std::adjacent_find(list.begin(), list.end(), std::greater_equal<>()) == list.end();
  if (!ascending || list.front() < 0 || list.back() >= replicas_ ||
      !std::binary_search(list.begin(), list.end(), replica_))
    fail_run({fmt::format("replica {}", replica_), fmt::format("exchange among {}", fmt::join(list, ", ")),
              fmt::format("members must be ascending, among 0 to {}, and include the caller", replicas_ - 1), ""});
  return list;
}

void Hub::average(std::span<at::Tensor> tensors, std::span<const int> members) {
  if (members.size() == 1 || replicas_ == 1) return;
  const int count = sum(tensors, members);
  for (at::Tensor& tensor : tensors) tensor.div_(double(count));
}

void Hub::weighted_average(std::span<at::Tensor> tensors, double weight, std::span<const int> members) {
  if (members.size() == 1 || replicas_ == 1) return;
  const double all = total(weight, members);
  if (!(all > 0))
    fail_run({"weighted average of replicas", fmt::format("weights add up to {}", all),
              "they must add up to more than 0", ""});
  for (at::Tensor& tensor : tensors) {
    if (weight == 0) tensor.zero_();
    else tensor.mul_(weight);
  }
  sum(tensors, members);
  for (at::Tensor& tensor : tensors) tensor.div_(all);
}

Reply Hub::visit(int shard, Request request) {
  std::vector<ShardRequest> requests;
  requests.push_back({shard, std::move(request)});
  return std::move(visit(std::move(requests)).front());
}

void Hub::count_staleness(int64_t updates) {
  if (!metered_) return;
  if (counts_.staleness.size() <= size_t(updates)) counts_.staleness.resize(size_t(updates) + 1);
  ++counts_.staleness[size_t(updates)];
}

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
