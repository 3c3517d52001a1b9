#include "cost/instruction_costs.h"

#include <algorithm>

#include "program/rendezvous.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr double kSparseIndexBytes = 8;

/// The samples of this rank's data shard, out of `samples`.
int64_t share_of_rank(const Layout& layout, int rank, int64_t samples) {
  const Mesh& mesh = layout.mesh;
  if (!layout.data.is_shard() || layout.data.dim != 0) return samples;
  const int index = mesh.data_index(rank);
  return (mesh.shares.empty() ? share_of(samples, mesh.data, index) : share_of(samples, mesh.shares, index)).size();
}

double elements_of(const Layout& layout, int rank, const Shape& shape) {
  double elements = 1;
  for (const Range& range : layout.box_of(rank, shape)) elements *= double(range.size());
  return elements;
}

/// The workers that communicate with `rank` in a redistribution on one mesh, `rank` included.
std::vector<int> line_of(const RedistributionEnds& ends, int rank) {
  const ExchangedAxes axes = exchanged_axes(ends.from, ends.to);
  if (axes.data && axes.tensor) return ends.from.mesh.workers;
  if (axes.data) return ends.from.mesh.data_group(rank);
  if (axes.tensor) return ends.from.mesh.tensor_group(rank);
  return {};
}

/// Seconds of one pass of a layer. `splits`: the layer runs backward as two passes if the instruction requests it.
double seconds_of(const LayerCost& cost, SegmentPass pass, bool splits) {
  if (pass == SegmentPass::forward) return cost.forward;
  if (pass == SegmentPass::backward_weight) return cost.backward_weight;
  return pass == SegmentPass::backward_input && splits ? cost.backward_input : cost.backward;
}

/// Launches of the same pass.
Launches launches_of(const LayerCost& cost, SegmentPass pass, bool splits) {
  if (pass == SegmentPass::forward) return cost.forward_launches;
  if (pass == SegmentPass::backward_weight) return cost.backward_weight_launches;
  Launches launches = cost.backward_input_launches;
  if (pass == SegmentPass::backward || !splits) launches += cost.backward_weight_launches;
  return launches;
}

/// The rank in mesh `other` that `rank` of mesh `own` sends to or receives from, if both meshes have the same layout.
int opposite(const Mesh& own, const Mesh& other, int rank) {
  const int place = own.index_of(rank);
  return other.workers[size_t(int64_t(place) * other.size() / own.size())];
}

/// A transfer's demand of links, with what it takes of its ranks' cores.
Demand with_work(Demand demand, const std::vector<Share>& work) {
  demand.shares.insert(demand.shares.end(), work.begin(), work.end());
  return demand;
}

}  // namespace

InstructionCosts::InstructionCosts(const Program& program, const Model& model, const Cluster& cluster,
                                   const LayerCosts& layers, const Links& links, const InstructionCostOptions& options)
    : program_(program), model_(model), cluster_(cluster), layers_(layers), links_(links), options_(options) {
  for (int k = 0; k < program.micro_batches; ++k)
    micro_batch_samples_.push_back(share_of(options.batch, program.micro_batches, k).size());
  for (int rank : options.representatives)
    for (int pool : links.pools_of(rank)) {
      counted_.resize(links.pools().size(), false);
      counted_[size_t(pool)] = true;
    }
}

size_t InstructionCosts::KeyHash::operator()(const Key& key) const {
  const auto& [rank, code, index, adjoint, samples] = key;
  constexpr size_t kOdd = 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio: spreads neighbouring keys
  size_t hash = 0;
  for (size_t part : {size_t(rank), size_t(code) * 2 + size_t(adjoint), size_t(index), size_t(samples)})
    hash = (hash ^ part) * kOdd;
  return hash ^ (hash >> 32);
}

const InstructionCost& InstructionCosts::of(int rank, const Instruction& i) {
  const int64_t samples = i.micro_batch >= 0 ? micro_batch_samples_[size_t(i.micro_batch)] : 0;
  const Key key{rank, i.code, i.index, i.adjoint || !i.last, samples};  // only reductions may not be the last
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second;
  return known_.emplace(key, compute(rank, i, samples)).first->second;
}

InstructionCost InstructionCosts::compute(int rank, const Instruction& i, int64_t samples) {
  InstructionCost cost;
  switch (description_of(i.code).operand) {
    case Operand::stage:
      for (const Value& value : program_.values)
        if (value.loaded && value.node == 0 && value.layout.mesh.index_of(rank) >= 0) {
          const double seconds = options_.loading * double(share_of_rank(value.layout, rank, samples));
          cost = {computing(rank, seconds, 1), 0, own_seconds(rank, seconds)};
        }
      break;
    case Operand::segment: cost = segment_cost(rank, i, samples); break;
    case Operand::redistribution: cost = redistribution_cost(rank, i, samples); break;
    case Operand::bucket: cost = bucket_cost(rank, i); break;
    case Operand::nothing:
      if (description_of(i.code).weights == WeightUse::measure_sums) cost = norm_cost();
      break;
    case Operand::end_of_step:
      if (i.index == kAfterStep) cost = {{options_.agreement_seconds, {}}, options_.agreement_bytes, 0};
      break;
    case Operand::op: break;
  }
  if (options_.overhead > 0) {
    if (cost.demand.shares.empty() && cost.demand.fixed <= 0) cost.demand = computing(rank, options_.overhead, 1);
    else cost.demand.fixed += options_.overhead;
    cost.computing += options_.overhead;
  }
  for (Share& share : cost.demand.shares)
    if (links_.pools()[size_t(share.pool)].kind == Pool::Kind::cores) share.users *= options_.replicas;
  return cost;
}

/// Removes the demand on pools of nodes without a representative: nodes with a representative have the same demand at
/// the same time.
Demand InstructionCosts::seen_by_representatives(Demand demand) const {
  if (!counted_.empty())
    std::erase_if(demand.shares, [&](const Share& share) { return !counted_[size_t(share.pool)]; });
  return demand;
}

/// All workers of the layers whose parameters are in this bucket: its holders and the holders of the other slices.
/// Empty if no rank represents others.
std::vector<int> InstructionCosts::users_of(const Bucket& bucket) const {
  if (options_.representatives.empty()) return {};
  std::vector<int> workers;
  for (const Op& op : program_.ops) {
    if (std::find(op.parameters.begin(), op.parameters.end(), bucket.shards.front().parameter) == op.parameters.end())
      continue;
    workers.insert(workers.end(), op.mesh.workers.begin(), op.mesh.workers.end());
  }
  std::sort(workers.begin(), workers.end());
  workers.erase(std::unique(workers.begin(), workers.end()), workers.end());
  return workers;
}

/// The demand of equal collectives of several groups of a bucket's holders at the same time.
Demand InstructionCosts::collectives(RedistributionKind kind, double bytes, const Bucket& bucket,
                                     const std::vector<std::vector<int>>& groups) const {
  const int others = alike(bucket.holders, users_of(bucket));
  Demand all;
  for (const std::vector<int>& group : groups) {
    const Demand one = with_work(links_.collective(kind, bytes, group, others), links_.work_beside(kind, bytes, group));
    all.fixed = std::max(all.fixed, one.fixed);
    all.shares.insert(all.shares.end(), one.shares.begin(), one.shares.end());
  }
  return seen_by_representatives(std::move(all));
}

/// The cost of summing the holders' gradients: a reduce-scatter in each run of holders and, for the last micro-batch,
/// an all-reduce of each slice over its copies.
InstructionCost InstructionCosts::reduction_cost(const Bucket& bucket, double bytes, bool is_last) const {
  const auto slices = double(bucket.slices()), copies = double(bucket.copies());
  InstructionCost cost{collectives(RedistributionKind::reduce_scatter, bytes, bucket, bucket.runs()),
                       bytes * (slices - 1) / slices};
  if (!is_last || bucket.copies() == 1) return cost;
  std::vector<std::vector<int>> same;
  same.reserve(size_t(bucket.slices()));
  for (int place = 0; place < bucket.slices(); ++place) same.push_back(bucket.copies_of(bucket.holders[size_t(place)]));
  const Demand sum = collectives(RedistributionKind::all_reduce, bytes / slices, bucket, same);
  cost.demand.fixed += sum.fixed;
  cost.demand.shares.insert(cost.demand.shares.end(), sum.shares.begin(), sum.shares.end());
  cost.bytes_sent += bytes / slices * 2 * (copies - 1) / copies;
  return cost;
}

Demand InstructionCosts::gather(int rank, double bytes, const Bucket& bucket) const {
  const std::vector<int> run = bucket.run_of(rank);
  return seen_by_representatives(
      with_work(links_.collective(RedistributionKind::all_gather, bytes, run, alike(run, users_of(bucket))),
                links_.work_beside(RedistributionKind::all_gather, bytes, run)));
}

/// This rank's part of a gather that does not wait for the other ranks (prefetch_weights).
Demand InstructionCosts::gather_alone(int rank, double bytes, const Bucket& bucket) const {
  const std::vector<int> run = bucket.run_of(rank);
  const auto place = size_t(std::find(run.begin(), run.end(), rank) - run.begin());
  const int cores = links_.cores_of(rank), own[] = {rank};
  Demand demand = links_.collective(RedistributionKind::all_gather, bytes, run, alike(run, users_of(bucket)));
  if (cores >= 0 && !demand.shares.empty() && demand.shares.front().pool == cores)
    demand.shares = {demand.shares.at(place)};
  else demand.shares = links_.giving(bytes, run, rank, alike(own, users_of(bucket))).shares;
  const std::vector<Share> work = links_.work_beside(RedistributionKind::all_gather, bytes, run);
  if (!work.empty()) demand.shares.push_back(work.at(place));
  return seen_by_representatives(std::move(demand));
}

/// The number of groups like `group` among `workers` that one representative group represents on its node, itself
/// included. They share the node's connection.
int InstructionCosts::alike(std::span<const int> group, const std::vector<int>& workers) const {
  const std::vector<int>& chosen = options_.representatives;
  if (chosen.empty() || group.empty()) return 1;
  const int node = cluster_.devices[size_t(group.front())].node;
  const auto groups = [&](bool only_chosen) {
    const auto counts = [&](int r) {
      return cluster_.devices[size_t(r)].node == node &&
             (!only_chosen || std::binary_search(chosen.begin(), chosen.end(), r));
    };
    const auto members = std::max<int64_t>(1, std::count_if(group.begin(), group.end(), counts));
    return std::max<int64_t>(1, std::count_if(workers.begin(), workers.end(), counts) / members);
  };
  return int(std::max<int64_t>(1, groups(false) / groups(true)));
}

Demand InstructionCosts::computing(int rank, double seconds, double crowding) const {
  if (seconds <= 0) return {};
  const int cores = links_.cores_of(rank);
  const double all = own_seconds(rank, seconds);
  if (cores < 0) return {all, {}};
  return {all - seconds, {{cores, seconds, crowding}}};
}

double InstructionCosts::own_seconds(int rank, double seconds) const {
  const double slowness = options_.slowness.empty() ? 1 : options_.slowness[size_t(rank)];
  const Device& device = cluster_.devices[size_t(rank)];
  const bool says_speed =
      device.kind < 0 && links_.cores_of(rank) < 0;  // the costs of a described device already depend on its kind
  return std::max(0.0, seconds) * slowness / (says_speed ? device.speed : 1);
}

void InstructionCosts::note_basis(const LayerCost& cost, double seconds) {
  if (cost.basis == Basis::own_times) {
    own_stretch_ = std::max(own_stretch_, cost.stretch);
    return;
  }
  predicts_layers_ |= seconds > 0;
  if (int(cost.basis) > int(basis_)) basis_ = cost.basis;
  stretch_ = std::max(stretch_, cost.stretch);
}

InstructionCost InstructionCosts::segment_cost(int rank, const Instruction& i, int64_t samples) {
  const SegmentPass pass = description_of(i.code).pass;
  const bool forward = pass == SegmentPass::forward, of_weights = pass == SegmentPass::backward_weight,
             again = description_of(i.code).weights == WeightUse::read_again;
  InstructionCost exchanged;
  double seconds = 0, crowded = 0, moving = 0;
  Launches launches;
  for (OpId id : program_.segments[size_t(i.index)].ops) {
    const Op& op = program_.ops[size_t(id)];
    if (!forward && !is_differentiated(op)) continue;
    if (of_weights && !op.splits_backward) continue;
    if (again && program_.is_restored(i.index, id)) continue;
    const int64_t share = share_of_rank(program_.values[size_t(op.output)].layout, rank, samples);
    if (share == 0) continue;
    const LayerCost cost =
        layers_.seconds(op.node, op.option, op.mesh.tensor, share, cluster_.devices[size_t(rank)].kind);
    const double own = seconds_of(cost, pass, op.splits_backward);
    launches += launches_of(cost, pass, op.splits_backward);
    seconds += own;
    crowded += own * cost.crowding;
    note_basis(cost, own);
    if (!op.communicates || of_weights) continue;
    const LayerExchanges exchanges = communication_of(op, share);
    for (const Exchange& part : forward ? exchanges.forward : exchanges.backward)
      add_communication(rank, op, part, exchanged, moving);
  }
  crowded *= options_.sharing;
  if (const double device = seconds - launches.wait; launches.wait > 0) {
    crowded *= std::max(device, launches.host) / seconds;
    seconds = std::max(device, launches.host);
  }
  const double all = seconds + moving;
  InstructionCost cost{computing(rank, all, all > 0 ? (crowded + moving) / all : 1), exchanged.bytes_sent,
                       own_seconds(rank, seconds)};
  cost.demand.fixed += exchanged.demand.fixed;
  cost.demand.shares.insert(cost.demand.shares.end(), exchanged.demand.shares.begin(), exchanged.demand.shares.end());
  return cost;
}

Shape InstructionCosts::global_shape(NodeId node, int64_t samples) const {
  Shape shape = model_.node(node).sample_shape;
  shape.insert(shape.begin(), samples);
  return shape;
}

double InstructionCosts::element_size(NodeId node, bool gradient) const {
  const Node& n = model_.node(node);
  if (node == model_.loss()) return double(c10::elementSize(master_type(options_.precision)));
  if (!gradient && n.layer && !n.layer->passes_gradients()) return kSparseIndexBytes;
  return double(c10::elementSize(compute_type(options_.precision)));
}

/// Returns the number of tensors that a receiver gets per region: if the sending stage has not added a sum, it gets
/// every summand.
double InstructionCosts::summands_of(const RedistributionEnds& ends) {
  const auto along = [](const Placement& from, const Placement& to, int degree) {
    return from.is_partial() && !to.is_partial() ? degree : 1;
  };
  return along(ends.from.data, ends.to.data, ends.from.mesh.data) *
         along(ends.from.tensor, ends.to.tensor, ends.from.mesh.tensor);
}

InstructionCost InstructionCosts::redistribution_cost(int rank, const Instruction& i, int64_t samples) {
  const Redistribution& redistribution = program_.redistributions[size_t(i.index)];
  const RedistributionEnds ends = ends_of(redistribution, program_, i.adjoint);
  const NodeId node = program_.values[size_t(redistribution.from)].node;
  const Shape shape = global_shape(node, samples);
  const double size = element_size(node, i.adjoint);
  const RedistributionRole role = description_of(i.code).role;
  if (role == RedistributionRole::exchange) {
    const auto known = kinds_.find({i.index, i.adjoint});
    const RedistributionKind kind =
        known != kinds_.end()
            ? known->second
            : kinds_.emplace(std::pair(i.index, i.adjoint), classify(ends.from, ends.to)).first->second;
    if (kind == RedistributionKind::none || kind == RedistributionKind::slice) return {};
    const bool grows = kind == RedistributionKind::all_gather;
    const double bytes = size * elements_of(grows ? ends.to : ends.from, rank, shape);
    const std::vector<int> ranks = line_of(ends, rank);
    const double part = ranks.empty() ? 0 : 1 - 1 / double(ranks.size());
    const double sent = bytes * part * (kind == RedistributionKind::all_reduce ? 2 : 1);
    return {seen_by_representatives(
                with_work(links_.redistribution(kind, bytes, ranks, alike(ranks, ends.from.mesh.workers)),
                          links_.work_of_redistribution(kind, bytes, ranks))),
            sent};
  }
  const Mesh &from = ends.from.mesh, &to = ends.to.mesh;
  const bool sends = role == RedistributionRole::send;
  const int other = sends ? opposite(from, to, rank) : opposite(to, from, rank);
  const double received = size * elements_of(ends.to, sends ? other : rank, shape) * summands_of(ends);
  const double sent = received * to.size() / from.size();
  const int own[] = {rank};
  if (sends) {
    if (links_.receiver_moves()) return {Demand{}, sent};
    const int ends[] = {rank, other};
    return {with_work(links_.message(rank, other, sent, alike(own, from.workers)),
                      links_.work_beside(RedistributionKind::send_receive, sent, ends)),
            sent};
  }
  return {links_.receiver_moves() ? links_.message(other, rank, received, alike(own, to.workers)) : Demand{}, 0};
}

/// An all-reduce of one number over all ranks.
InstructionCost InstructionCosts::norm_cost() const {
  std::vector<int> all(program_.list_of_rank.size());
  for (size_t r = 0; r < all.size(); ++r) all[r] = int(r);
  return {seen_by_representatives(links_.collective(RedistributionKind::all_reduce, kSparseIndexBytes, all)),
          kSparseIndexBytes};
}

InstructionCost InstructionCosts::bucket_cost(int rank, const Instruction& i) {
  const Bucket& bucket = program_.buckets[size_t(i.index)];
  const auto holders = double(bucket.holders.size());
  const double gathered = 1 - 1 / double(bucket.slices());  // share of the weights that other members of the run hold
  const double weight_bytes = double(bucket.elements) * double(c10::elementSize(compute_type(options_.precision)));
  double gradient_bytes = double(bucket.elements) * double(c10::elementSize(master_type(options_.precision)));
  if (program_.compression.sends_bf16()) gradient_bytes /= 2;
  if (program_.compression.kind == Compression::Kind::powersgd) {
    gradient_bytes = 0;
    for (const ParameterShard& shard : bucket.shards) {
      const auto rows = double(shard.box.empty() ? 1 : shard.box.front().size());
      gradient_bytes +=
          4 * std::min(double(shard.size()), program_.compression.rank * (rows + double(shard.size()) / rows));
    }
  }
  const OptimizerSharding sharding = program_.optimizer_sharding;
  const int kind = cluster_.devices[size_t(rank)].kind;
  const bool is_divided = sharding != OptimizerSharding::none;
  const bool early =
      links_.overlap() == Overlap::all;  // true: weights travel when they are requested; false: when they are received
  switch (description_of(i.code).weights) {
    case WeightUse::sum_gradients:
      if (!program_.private_replicas) return {};
      if (is_divided) return reduction_cost(bucket, gradient_bytes, i.last);
      return {collectives(RedistributionKind::all_reduce, gradient_bytes, bucket, {bucket.holders}),
              gradient_bytes * 2 * (holders - 1) / holders};
    case WeightUse::give_slice: {
      if (!early) return {};
      const int own[] = {rank};
      return {links_.giving(weight_bytes, bucket.run_of(rank), rank, alike(own, users_of(bucket))),
              weight_bytes * gathered};
    }
    case WeightUse::gather_slices:
      if (early) return {};
      return {gather_alone(rank, weight_bytes, bucket), weight_bytes * gathered};
    case WeightUse::update: {
      const bool whole = program_.private_replicas && !is_divided;
      const int64_t elements = whole ? bucket.elements : bucket.slice_of(rank).size();
      const int contributors = program_.private_replicas ? 1 : int(bucket.contributors.size());
      const double seconds = layers_.update_seconds(elements, contributors, kind);
      InstructionCost cost{computing(rank, seconds, layers_.update_crowding(contributors) * options_.sharing), 0,
                           own_seconds(rank, seconds)};
      if (sharding == OptimizerSharding::zero1 || sharding == OptimizerSharding::zero2) {
        const Demand slices = gather(rank, weight_bytes, bucket);
        cost.demand.fixed += slices.fixed;
        cost.demand.shares.insert(cost.demand.shares.end(), slices.shares.begin(), slices.shares.end());
        cost.bytes_sent = weight_bytes * gathered;
      } else if (!program_.private_replicas) {
        cost.bytes_sent = (gradient_bytes + weight_bytes) * (holders - 1) / holders;
      }
      return cost;
    }
    default: return {};
  }
}

}  // namespace trireme
