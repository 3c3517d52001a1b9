#include "trireme/hub.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/threads.h"
#include "trireme/error.h"

namespace trireme {

double ShardServer::deadline(int) const { return std::numeric_limits<double>::infinity(); }

int64_t bytes_of(std::span<const at::Tensor> tensors) {
  int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors)
    if (tensor.defined()) bytes += int64_t(tensor.nbytes());
  return bytes;
}

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

void run_replicas(HubWorld& world, const std::function<void(Hub&)>& body) {
  const auto work = [&](int replica) {
    Hub& hub = world.hub(replica);
    hub.enter();
    body(hub);
    hub.leave();
  };
  run_threads(world.replicas(), "replica", work, [&](const std::string& reason) { world.abort(reason); });
}

}  // namespace trireme
