#include "program/rendezvous.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

#include "program/rendezvous_rules.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// Returns the groups of the mesh along the axis of `axes`; the whole mesh as one group if `axes` has both.
std::vector<std::vector<int>> lines_of(const Mesh& mesh, ExchangedAxes axes) {
  std::vector<std::vector<int>> lines;
  if (axes.data && axes.tensor) return {mesh.workers};
  if (axes.data)
    for (int t = 0; t < mesh.tensor; ++t) lines.push_back(mesh.data_group(mesh.workers[size_t(t)]));
  if (axes.tensor)
    for (int d = 0; d < mesh.data; ++d) lines.push_back(mesh.tensor_group(mesh.workers[size_t(d * mesh.tensor)]));
  return lines;
}

/// Which indices of one source axis a receiver reads; all, if both members are false. Matches plan_transfers.
struct AxisRule {
  bool same_shards = false;  // index i reads from index i
  bool replicated = false;   // any index has the value
  bool one() const { return same_shards || replicated; }
};

AxisRule rule_for(const Placement& from, int degree, const Placement& to, int to_degree, bool same_shares) {
  AxisRule rule;
  rule.replicated = from.is_replicate() || degree == 1;
  rule.same_shards = !rule.replicated && degree == to_degree && from == to && (same_shares || from.is_partial());
  return rule;
}

/// Merges overlapping groups of ranks.
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
  const auto ascending = std::lower_bound(ranks.begin(), ranks.end(), rank);  // compile() writes them ascending
  if (ascending != ranks.end() && *ascending == rank) return size_t(ascending - ranks.begin());
  const auto it = std::find(ranks.begin(), ranks.end(), rank);
  if (it == ranks.end()) return std::nullopt;
  return size_t(it - ranks.begin());
}

bool takes(const Program& program, OpCode code) {
  const std::optional<Taking>& taking = description_of(code).takes;
  return taking && !(taking->only_shared_replicas && program.private_replicas);
}

/// The updates that an instruction waits for, with shared replicas. The forward of batch t reads the weights of version
/// t - delay, so it waits for the optimizer steps of batch t - delay - 1 on all holders. The backward waits for those
/// of batch t - 1, which read the gradient before it is overwritten.
std::vector<NeededUpdate> updates_needed(const Program& program, const Instruction& i) {
  const WeightUse use = description_of(i.code).weights;
  const bool reads = use == WeightUse::read, writes = use == WeightUse::add_gradients;
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

/// Writes the rendezvous of a program, once per operation.
class RendezvousWriter {
 public:
  RendezvousWriter(Program& program, const Model& model) : program_(program), model_(model) {}

  ListSites sites_of(const std::vector<Instruction>& list);

  const Program& program() const { return program_; }
  const Model& model() const { return model_; }
  const Bucket& bucket(const Instruction& i) const { return program_.buckets[size_t(i.index)]; }

  // Used by the rules.
  void mail(const Instruction& send);
  /// In each group, every rank posts, and every rank takes what all ranks of the group have posted. Ranks ascend within
  /// a group and from one group to the next.
  void announce(const Instruction& i, const std::vector<std::vector<int>>& groups, bool by_batch, bool must_be_taken);
  void join(const Instruction& i, const std::vector<std::vector<int>>& groups, bool by_micro_batch = true);

 private:
  using Key = std::tuple<OpCode, int, bool>;  // code, index, adjoint

  int rendezvous_of(const Instruction& instruction, bool takes);

  Program& program_;
  const Model& model_;
  std::map<Key, int> known_;
};

ListSites RendezvousWriter::sites_of(const std::vector<Instruction>& list) {
  ListSites all;
  std::map<Key, int> known;
  for (size_t k = 0; k < list.size(); ++k) {
    const Instruction& i = list[k];
    const auto [it, is_new] = known.try_emplace({i.code, i.index, i.adjoint}, int(all.sites.size()));
    all.of.push_back(it->second);
    if (!is_new) continue;
    const bool takes_part = takes(program_, i.code);
    all.sites.push_back({int(k), rendezvous_of(i, takes_part), takes_part, updates_needed(program_, i)});
  }
  return all;
}

int RendezvousWriter::rendezvous_of(const Instruction& instruction, bool takes) {
  Instruction poster = instruction;
  if (takes) poster.code = description_of(instruction.code).takes->from;
  const OpCodeDescription& description = description_of(poster.code);
  if (!description.rendezvous) return -1;
  const auto [it, is_new] =
      known_.try_emplace({poster.code, poster.index, poster.adjoint}, int(program_.rendezvous.size()));
  if (is_new) {
    program_.rendezvous.emplace_back();
    description.rendezvous(*this, poster);
  }
  return it->second;
}

void RendezvousWriter::mail(const Instruction& send) {
  const RedistributionEnds ends = ends_of(program_.redistributions[size_t(send.index)], program_, send.adjoint);
  const Mesh &from = ends.from.mesh, &to = ends.to.mesh;
  const AxisRule data = rule_for(ends.from.data, from.data, ends.to.data, to.data, from.shares == to.shares);
  const AxisRule tensor = rule_for(ends.from.tensor, from.tensor, ends.to.tensor, to.tensor, true);
  std::vector<Channel>& channels = program_.channels;
  const auto first = int(channels.size());
  const int rows = data.one() ? from.data : 1, columns = tensor.one() ? from.tensor : 1;
  channels.resize(channels.size() + size_t(rows * columns), Channel{send.code, send.index, send.adjoint, {}, {}});
  const auto channel_of = [&](int d, int t) { return first + (data.one() ? d * columns : 0) + (tensor.one() ? t : 0); };

  Rendezvous& rendezvous = program_.rendezvous.back();
  rendezvous.posters = from.workers;
  rendezvous.takers = to.workers;
  for (int place = 0; place < from.size(); ++place) {
    const int id = channel_of(place / from.tensor, place % from.tensor);
    std::vector<int>& members = channels[size_t(id)].members;
    rendezvous.posts.push_back({Part::post, id, int(members.size())});
    members.push_back(from.workers[size_t(place)]);
  }
  for (int place = 0; place < to.size(); ++place) {
    // A receiver that also holds a replica reads its own. The other receivers are spread over the replicas.
    const auto own = place_of(to.workers[size_t(place)], from.workers);
    const int spread = ends.from.data.is_replicate() ? place / from.data : place;
    const int any_data = own ? int(*own) / from.tensor : place % from.data;
    const int any_tensor = own ? int(*own) % from.tensor : spread % from.tensor;
    const int id =
        channel_of(data.replicated ? any_data : place / to.tensor, tensor.replicated ? any_tensor : place % to.tensor);
    std::vector<int>& receivers = channels[size_t(id)].receivers;
    rendezvous.takes.push_back({Part::take, id, int(receivers.size())});
    receivers.push_back(to.workers[size_t(place)]);
  }
}

void RendezvousWriter::announce(const Instruction& i, const std::vector<std::vector<int>>& groups, bool by_batch,
                                bool must_be_taken) {
  Rendezvous& rendezvous = program_.rendezvous.back();
  for (const std::vector<int>& ranks : groups) {
    const auto channel = int(program_.channels.size());
    for (int place = 0; place < int(ranks.size()); ++place) {
      rendezvous.posters.push_back(ranks[size_t(place)]);
      rendezvous.posts.push_back({Part::post, channel, place});
      rendezvous.takes.push_back({Part::take, channel, place});
    }
    program_.channels.push_back({i.code, i.index, i.adjoint, ranks, ranks, false, by_batch, must_be_taken});
  }
  rendezvous.takers = rendezvous.posters;
}

void RendezvousWriter::join(const Instruction& i, const std::vector<std::vector<int>>& groups, bool by_micro_batch) {
  std::vector<std::pair<int, Role>> roles;
  for (const std::vector<int>& group : groups) {
    const bool alone = group.size() == 1;
    for (int place = 0; place < int(group.size()); ++place)
      roles.push_back({group[size_t(place)], alone ? Role{} : Role{Part::join, int(program_.channels.size()), place}});
    if (!alone) program_.channels.push_back({i.code, i.index, i.adjoint, group, {}, by_micro_batch});
  }
  std::sort(roles.begin(), roles.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Rendezvous& rendezvous = program_.rendezvous.back();
  for (const auto& [rank, role] : roles) {
    rendezvous.posters.push_back(rank);
    rendezvous.posts.push_back(role);
  }
}

void write_rendezvous(Program& program, const Model& model) {
  program.channels.clear();
  program.rendezvous.clear();
  program.sites.clear();
  RendezvousWriter writer(program, model);
  for (const std::vector<Instruction>& list : program.lists) program.sites.push_back(writer.sites_of(list));
}

Role role_of(const Program& program, int rank, const Site& site) {
  if (site.rendezvous < 0) return {};
  const Rendezvous& rendezvous = program.rendezvous[size_t(site.rendezvous)];
  const std::vector<int>& ranks = site.takes ? rendezvous.takers : rendezvous.posters;
  if (ranks.empty()) return {};
  const std::optional<size_t> place = place_of(rank, ranks);
  if (!place) {
    const Instruction& instruction = program.instructions(rank)[size_t(site.first)];
    check_internal(false,
                   fmt::format("{} is for workers of its mesh only, not for rank {}", name_of(instruction.code), rank));
  }
  return (site.takes ? rendezvous.takes : rendezvous.posts)[*place];
}

// -- the rules

void join_in_communicating_layers(RendezvousWriter& writer, const Instruction& i) {
  Union all;
  for (OpId id : writer.program().segments[size_t(i.index)].ops) {
    const Op& op = writer.program().ops[size_t(id)];
    if (!op.communicates) continue;
    const bool tensor = op.option.communicates_over_tensor_axis && op.mesh.tensor > 1;
    const bool data =
        !tensor || writer.model().node(op.node).layer->communicates_over_data_axis(BatchNormScope::global);
    for (const std::vector<int>& line : lines_of(op.mesh, {data, tensor})) all.add(line);
  }
  writer.join(i, all.groups());
}

void join_along_exchanged_axes(RendezvousWriter& writer, const Instruction& i) {
  const RedistributionEnds ends =
      ends_of(writer.program().redistributions[size_t(i.index)], writer.program(), i.adjoint);
  writer.join(i, lines_of(ends.from.mesh, exchanged_axes(ends.from, ends.to)));
}

void post_to_receivers(RendezvousWriter& writer, const Instruction& i) { writer.mail(i); }

void post_slice_to_holders(RendezvousWriter& writer, const Instruction& i) {
  writer.announce(i, writer.bucket(i).runs(), false, true);
}

void sum_among_holders(RendezvousWriter& writer, const Instruction& i) {
  const std::vector<int>& holders = writer.bucket(i).holders;
  if (writer.program().private_replicas) writer.join(i, {holders});
  else writer.announce(i, {holders}, true, false);
}

void gather_slices_after_update(RendezvousWriter& writer, const Instruction& i) {
  const OptimizerSharding sharding = writer.program().optimizer_sharding;
  if (sharding == OptimizerSharding::zero1 || sharding == OptimizerSharding::zero2)
    writer.join(i, writer.bucket(i).runs(), false);
}

void join_all_ranks(RendezvousWriter& writer, const Instruction& i) {
  std::vector<int> all(writer.program().list_of_rank.size());
  std::iota(all.begin(), all.end(), 0);
  writer.join(i, {all}, false);
}

void join_along_data_axis(RendezvousWriter& writer, const Instruction& i) {
  writer.join(i, lines_of(writer.program().ops[size_t(i.index)].mesh, {.data = true}), false);
}

}  // namespace trireme
