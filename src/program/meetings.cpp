#include "program/meetings.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/error.h"

namespace trireme {
namespace {

/// Lines of a mesh along the axes; the whole mesh along both.
std::vector<std::vector<int>> lines_of(const Mesh& mesh, ExchangedAxes axes) {
  std::vector<std::vector<int>> lines;
  if (axes.data && axes.tensor) return {mesh.workers};
  if (axes.data)
    for (int t = 0; t < mesh.tensor; ++t) lines.push_back(mesh.data_group(mesh.workers[size_t(t)]));
  if (axes.tensor)
    for (int d = 0; d < mesh.data; ++d) lines.push_back(mesh.tensor_group(mesh.workers[size_t(d * mesh.tensor)]));
  return lines;
}

/// Which index of one axis of the source a receiver reads; nothing: all of them. As plan_transfers chooses.
struct AxisRule {
  bool same_shards = false;  // index i reads index i
  bool replicated = false;   // any will do
  bool one() const { return same_shards || replicated; }
};

AxisRule rule_for(const Placement& from, int degree, const Placement& to, int to_degree, bool same_shares) {
  AxisRule rule;
  rule.replicated = from.is_replicate() || degree == 1;
  rule.same_shards = !rule.replicated && degree == to_degree && from == to && (same_shares || from.is_partial());
  return rule;
}

/// Groups of ranks that overlap become one.
class Union {
 public:
  void add(const std::vector<int>& group) {
    for (int rank : group) {
      parents_.try_emplace(rank, rank);
      parents_[root(rank)] = root(group.front());
    }
  }
  std::vector<std::vector<int>> groups() {
    std::map<int, std::vector<int>> by_root;
    for (const auto& [rank, parent] : parents_) by_root[root(rank)].push_back(rank);
    std::vector<std::vector<int>> all;
    for (auto& [top, members] : by_root) all.push_back(std::move(members));
    return all;
  }

 private:
  int root(int rank) {
    while (parents_[rank] != rank) rank = parents_[rank] = parents_[parents_[rank]];
    return rank;
  }
  std::map<int, int> parents_;
};

std::optional<size_t> place_of(int rank, const std::vector<int>& ranks) {
  const auto ascending = std::lower_bound(ranks.begin(), ranks.end(), rank);  // all that compile() writes are in order
  if (ascending != ranks.end() && *ascending == rank) return size_t(ascending - ranks.begin());
  const auto it = std::find(ranks.begin(), ranks.end(), rank);
  if (it == ranks.end()) return std::nullopt;
  return size_t(it - ranks.begin());
}

bool takes(OpCode code, bool private_replicas) {
  return code == OpCode::receive || code == OpCode::gather_weights || (code == OpCode::optimizer_step && !private_replicas);
}

}  // namespace

ExchangedAxes exchanged_axes(const Layout& from, const Layout& to) {
  const auto leaves = [](const Placement& a, const Placement& b, int degree) {
    return degree > 1 && !a.is_replicate() && a != b;
  };
  if (from.mesh == to.mesh)
    return {leaves(from.data, to.data, from.mesh.data), leaves(from.tensor, to.tensor, from.mesh.tensor)};
  const bool everywhere =
      (from.data.is_replicate() || from.mesh.data == 1) && (from.tensor.is_replicate() || from.mesh.tensor == 1);
  return {!everywhere, !everywhere};
}

std::vector<NeededUpdate> updates_needed(const Program& program, const Instruction& i) {
  const bool reads = i.code == OpCode::forward;
  const bool writes = i.code == OpCode::backward || i.code == OpCode::backward_input || i.code == OpCode::backward_weight;
  if (!program.training || program.private_replicas || !(reads || writes)) return {};
  if (size_t(i.index) >= program.segment_buckets.size()) return {};
  int delay = 0;
  if (reads) {
    const std::vector<OpId>& ops = program.segments[size_t(i.index)].ops;
    for (size_t k = 0; k < ops.size(); ++k)
      delay = k == 0 ? program.ops[size_t(ops[k])].delay : std::min(delay, program.ops[size_t(ops[k])].delay);
  }
  std::vector<NeededUpdate> needs;
  for (BucketId b : program.segment_buckets[size_t(i.index)])
    if (!program.buckets[size_t(b)].contributors.empty()) needs.push_back({b, delay + 1});
  return needs;
}

Role Meetings::role_of(int rank, const Instruction& instruction) {
  const Exchange& exchange = exchange_of(instruction);
  const bool is_taker = takes(instruction.code, program_.private_replicas);
  const std::vector<int>& ranks = is_taker ? exchange.takers : exchange.posters;
  if (ranks.empty()) return {};
  const std::optional<size_t> place = place_of(rank, ranks);
  if (!place)
    check_internal(false, fmt::format("{} is for workers of its mesh only, not for rank {}", name_of(instruction.code), rank));
  return (is_taker ? exchange.takes : exchange.posts)[*place];
}

const Meetings::Exchange& Meetings::exchange_of(const Instruction& instruction) {
  OpCode code = instruction.code;  // of those who post, for those who take from them
  if (code == OpCode::receive) code = OpCode::send;
  if (code == OpCode::gather_weights) code = OpCode::prefetch_weights;
  if (code == OpCode::optimizer_step && !program_.private_replicas) code = OpCode::reduce_gradients;
  const Key key{code, instruction.index, instruction.adjoint};
  const auto known = exchanges_.find(key);
  if (known != exchanges_.end()) return known->second;
  Instruction poster = instruction;
  poster.code = code;
  return exchanges_.emplace(key, build(poster)).first->second;
}

Meetings::Exchange Meetings::build(const Instruction& i) {
  const auto holders = [&]() -> const std::vector<int>& { return program_.buckets[size_t(i.index)].holders; };
  switch (i.code) {
    case OpCode::send: return mail(i);
    case OpCode::redistribute: {
      const MoveEnds ends = ends_of(program_.moves[size_t(i.index)], program_, i.adjoint);
      return joins(i, lines_of(ends.from.mesh, exchanged_axes(ends.from, ends.to)));
    }
    case OpCode::forward:
    case OpCode::recompute:
    case OpCode::backward:
    case OpCode::backward_input: return joins(i, talking_groups(i.index));
    case OpCode::reduce_gradients:
      return program_.private_replicas ? joins(i, {holders()}) : announcements(i, true);
    case OpCode::optimizer_step: {
      const bool gathers = program_.optimizer_sharding == OptimizerSharding::zero1 ||
                           program_.optimizer_sharding == OptimizerSharding::zero2;
      return gathers ? joins(i, {holders()}, false) : Exchange{};
    }
    case OpCode::prefetch_weights: return announcements(i, false);
    case OpCode::clip_gradients:
    case OpCode::agree: {
      std::vector<int> all(program_.list_of_rank.size());
      std::iota(all.begin(), all.end(), 0);
      return joins(i, {all}, false);
    }
    case OpCode::synchronize_buffers:
      return joins(i, lines_of(program_.ops[size_t(i.index)].mesh, {.data = true}), false);
    case OpCode::load_batch:
    case OpCode::backward_weight:
    case OpCode::receive:
    case OpCode::gather_weights:
    case OpCode::release_weights: break;
  }
  return {};
}

Meetings::Exchange Meetings::mail(const Instruction& send) {
  const MoveEnds ends = ends_of(program_.moves[size_t(send.index)], program_, send.adjoint);
  const Mesh &from = ends.from.mesh, &to = ends.to.mesh;
  const AxisRule data = rule_for(ends.from.data, from.data, ends.to.data, to.data, from.shares == to.shares);
  const AxisRule tensor = rule_for(ends.from.tensor, from.tensor, ends.to.tensor, to.tensor, true);
  const auto first = int(channels_.size());
  const int rows = data.one() ? from.data : 1, columns = tensor.one() ? from.tensor : 1;
  channels_.resize(channels_.size() + size_t(rows * columns), Channel{send.code, send.index, send.adjoint, {}, {}, true, true});
  const auto channel_of = [&](int d, int t) { return first + (data.one() ? d * columns : 0) + (tensor.one() ? t : 0); };

  Exchange exchange{from.workers, to.workers, {}, {}};
  for (int place = 0; place < from.size(); ++place) {
    const int id = channel_of(place / from.tensor, place % from.tensor);
    std::vector<int>& members = channels_[size_t(id)].members;
    exchange.posts.push_back({Part::post, id, int(members.size())});
    members.push_back(from.workers[size_t(place)]);
  }
  for (int place = 0; place < to.size(); ++place) {
    // A receiver that holds a replica reads its own, others are spread over the replicas.
    const auto own = place_of(to.workers[size_t(place)], from.workers);
    const int spread = ends.from.data.is_replicate() ? place / from.data : place;
    const int any_data = own ? int(*own) / from.tensor : place % from.data;
    const int any_tensor = own ? int(*own) % from.tensor : spread % from.tensor;
    const int id = channel_of(data.replicated ? any_data : place / to.tensor, tensor.replicated ? any_tensor : place % to.tensor);
    std::vector<int>& receivers = channels_[size_t(id)].receivers;
    exchange.takes.push_back({Part::take, id, int(receivers.size())});
    receivers.push_back(to.workers[size_t(place)]);
  }
  return exchange;
}

Meetings::Exchange Meetings::announcements(const Instruction& i, bool by_batch) {
  const std::vector<int>& holders = program_.buckets[size_t(i.index)].holders;
  Exchange exchange{holders, holders, {}, {}};
  for (int place = 0; place < int(holders.size()); ++place) {
    exchange.posts.push_back({Part::post, int(channels_.size()), place});
    exchange.takes.push_back({Part::take, int(channels_.size()), place});
  }
  channels_.push_back({i.code, i.index, i.adjoint, holders, holders, false, by_batch});
  return exchange;
}

Meetings::Exchange Meetings::joins(const Instruction& i, const std::vector<std::vector<int>>& groups, bool by_micro_batch) {
  std::vector<std::pair<int, Role>> roles;
  for (const std::vector<int>& group : groups) {
    const bool alone = group.size() == 1;
    for (int place = 0; place < int(group.size()); ++place)
      roles.push_back({group[size_t(place)], alone ? Role{} : Role{Part::join, int(channels_.size()), place}});
    if (!alone) channels_.push_back({i.code, i.index, i.adjoint, group, {}, by_micro_batch, true});
  }
  std::sort(roles.begin(), roles.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Exchange exchange;
  for (const auto& [rank, role] : roles) {
    exchange.posters.push_back(rank);
    exchange.posts.push_back(role);
  }
  return exchange;
}

std::vector<std::vector<int>> Meetings::talking_groups(SegmentId segment) const {
  Union all;
  for (OpId id : program_.segments[size_t(segment)].ops) {
    const Op& op = program_.ops[size_t(id)];
    if (!op.talks) continue;
    const bool tensor = op.option.talks_over_tensor_axis && op.mesh.tensor > 1;
    const bool data = !tensor || model_.node(op.node).layer->talks_over_data_axis(BatchNormScope::global);
    for (const std::vector<int>& line : lines_of(op.mesh, {data, tensor})) all.add(line);
  }
  return all.groups();
}

}  // namespace trireme
