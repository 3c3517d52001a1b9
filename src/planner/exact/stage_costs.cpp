#include "planner/exact/stage_costs.h"

#include <algorithm>
#include <set>
#include <utility>

#include "cost/call_shapes.h"
#include "trireme/plan.h"

namespace trireme {
namespace {

constexpr int kAnyTensor = 64;  // up to this many devices, a tensor axis may be as wide as the stage

int most_tensor(const PlanRequest& request) {
  if (request.space.most_tensor > 0) return request.space.most_tensor;
  if (request.cluster.size() <= kAnyTensor) return request.cluster.size();
  std::map<int, int> devices;
  int most = 1;
  for (const Device& device : request.cluster.devices) most = std::max(most, ++devices[device.node]);
  return most;
}

/// The stage's mesh. If the speeds are equal, the plan has no speeds.
Mesh mesh_of(const Cluster& cluster, DeviceSpan span, int tensor) {
  Plan plan;
  plan.stages.resize(1);
  plan.layers = {{0, span.count / tensor, tensor}};
  for (const Device& device : cluster.devices) plan.speeds.push_back(device.speed);
  for (int i = 0; i < span.count; ++i) plan.stages[0].push_back(span.first + i);
  return plan.mesh_of(0);
}

}  // namespace

void StageTerms::add(const StageTerms& other) {
  compute += other.compute;
  weight_compute += other.weight_compute;
  communication += other.communication;
  hide += other.hide;
  reduce += other.reduce;
  exposed += other.exposed;
  update += other.update;
  weights += other.weights;
  gradients += other.gradients;
  optimizer += other.optimizer;
  kept += other.kept;
  enters += other.enters;
  workspace = std::max(workspace, other.workspace);
}

StageCosts::StageCosts(const ModelFacts& facts, const StageSettings& settings, DeviceSpan span)
    : facts_(facts),
      cluster_(facts.request().cluster),
      settings_(settings),
      span_(span),
      redistribution_costs_(cluster_, span),
      entry_(entry_link(cluster_, span)),
      exit_(exit_link(cluster_, span)),
      most_tensor_(std::min(span.count, most_tensor(facts.request()))) {
  for (int i = span.first; i < span.first + span.count; ++i) {
    const auto memory = double(cluster_.devices[size_t(i)].memory);
    if (memory > 0) memory_limit_ = memory_limit_ == 0 ? memory : std::min(memory_limit_, memory);
    const auto kind = size_t(cluster_.devices[size_t(i)].kind);  // -1, or of devices that are not described
    if (kind < cluster_.kinds.size())
      activation_room_ = std::max(activation_room_, 1 + cluster_.kinds[kind].allocator_overhead);
  }
}

const StageCosts::Degree& StageCosts::degree(int tensor) const {
  const auto [it, fresh] = degrees_.try_emplace(tensor);
  if (fresh) it->second = make_degree(tensor);
  return it->second;
}

StageCosts::Degree StageCosts::make_degree(int tensor) const {
  const Mesh mesh = mesh_of(cluster_, span_, tensor);
  const int64_t batch = facts_.request().batch, m = settings_.micro_batches;
  const int64_t most = (batch + m - 1) / m;
  Degree degree;
  degree.fits = fills_all_shards(mesh, batch / m) && fills_all_shards(mesh, most);
  if (!degree.fits) return degree;
  std::set<Shard> shards;
  for (int d = 0; d < mesh.data; ++d) {
    const int64_t samples =
        (mesh.shares.empty() ? share_of(most, mesh.data, d) : share_of(most, mesh.shares, d)).size();
    degree.samples = std::max(degree.samples, samples);
    for (int t = 0; t < tensor; ++t) {
      const Device& device = cluster_.devices[size_t(mesh.workers[size_t(d * tensor + t)])];
      shards.insert({samples, device.kind, device.kind < 0 ? device.speed : 1});
    }
  }
  degree.shards.assign(shards.begin(), shards.end());
  return degree;
}

const std::vector<Candidate>& StageCosts::candidates(NodeId node) const {
  const auto [it, fresh] = candidates_.try_emplace(facts_.layer(node).layer_class);
  if (!fresh) return it->second;
  for (int tensor = 1; tensor <= most_tensor_; ++tensor) {
    if (span_.count % tensor != 0 || !degree(tensor).fits) continue;
    for (const ShardingOption& option : facts_.options(node, tensor))
      it->second.push_back({span_.count / tensor, tensor, &option});
  }
  return it->second;
}

/// Seconds of the communication inside the calls of a split layer over the tensor axis, for one micro-batch.
double StageCosts::communication_seconds(NodeId node, const Candidate& candidate) const {
  const int t = candidate.tensor;
  if (t == 1 || !candidate.option->communicates_over_tensor_axis) return 0;
  const Model& model = facts_.model();
  const int bytes = facts_.request().bytes_per_value;
  const Precision precision = bytes <= 2 ? Precision::bf16 : bytes == 8 ? Precision::fp64 : Precision::fp32;
  CallInputs inputs{.shapes = model.input_shapes(node), .elements = {}, .wanted = {}};
  inputs.elements.assign(inputs.shapes.size(), bytes);
  inputs.wanted = facts_.layer(node).gradient_goes;
  const LayerExchanges exchanges =
      exchanges_of(call_shapes(*model.node(node).layer, inputs, *candidate.option, t, degree(t).samples, precision));
  const LinkCost& ring = redistribution_costs_.tensor_ring(t);
  const auto seconds_of = [&](const std::vector<Exchange>& list) {
    double seconds = 0;
    for (const Exchange& one : list) switch (one.kind) {
        case RedistributionKind::send_receive:
          seconds += one.times * (ring.latency + one.bytes * ring.seconds_per_byte);
          break;
        case RedistributionKind::all_reduce: seconds += one.times * ring_all_reduce_seconds(ring, t, one.bytes); break;
        default: seconds += one.times * ring_reduce_scatter_seconds(ring, t, one.bytes); break;
      }
    return seconds;
  };
  return (settings_.recompute ? 2 : 1) * seconds_of(exchanges.forward) + seconds_of(exchanges.backward);
}

/// As in the documentation's table of replicas: float32 weights and gradients; under bf16 also a narrow copy of the
/// weights for computation.
StageCosts::Bytes StageCosts::bytes_per_element() const {
  constexpr double kNarrow = 2, kUsual = 4;
  const double value = facts_.request().bytes_per_value;
  const double wide = std::max(value, kUsual);
  return {value <= kNarrow ? wide + kNarrow : wide, wide, wide * facts_.request().optimizer_tensors};
}

StageTerms StageCosts::own(NodeId node, const Candidate& candidate, const std::vector<bool>& shared) const {
  const auto [it, fresh] = own_.try_emplace({node, candidate.option, shared});
  StageTerms& terms = it->second;
  if (!fresh) return terms;
  add_seconds(node, candidate, terms);
  const LayerFacts& layer = facts_.layer(node);
  for (size_t p = 0; p < layer.parameters.size(); ++p) {
    const int group = layer.parameters[p].tied;
    if (group >= 0 && shared[size_t(group)]) continue;
    const bool elsewhere = group >= 0 && facts_.tied()[size_t(group)].front() < node;
    add_parameter(layer.parameters[p].elements, candidate, p, elsewhere, terms);
  }
  overlap(terms);
  terms.communication += communication_seconds(node, candidate);
  const LayerMemory memory =
      facts_.request().costs.memory(node, *candidate.option, candidate.tensor, degree(candidate.tensor).samples);
  terms.kept += activation_room_ * (double(memory.saved) + (layer.output_kept ? double(memory.output) : 0));
  terms.workspace = activation_room_ * double(std::max(memory.forward_workspace, memory.backward_workspace));
  return terms;
}

void StageCosts::add_seconds(NodeId node, const Candidate& candidate, StageTerms& terms) const {
  for (const Shard& shard : degree(candidate.tensor).shards) {
    const LayerCost cost =
        facts_.request().costs.seconds(node, *candidate.option, candidate.tensor, shard.samples, shard.kind);
    const double factor = (settings_.alone ? 1 : cost.crowding) / shard.speed;
    const bool splits = settings_.splits_backward && cost.backward_weight > 0;
    const double forward = (settings_.recompute ? 2 : 1) * cost.forward;
    terms.compute = std::max(terms.compute, factor * (forward + (splits ? cost.backward_input : cost.backward)));
    if (splits) terms.weight_compute = std::max(terms.weight_compute, factor * cost.backward_weight);
    const double hide = factor * (cost.backward + (settings_.recompute ? cost.forward : 0));
    terms.hide = terms.hide == 0 ? hide : std::min(terms.hide, hide);
  }
}

void StageCosts::add_parameter(double elements, const Candidate& candidate, size_t index, bool elsewhere,
                               StageTerms& terms) const {
  const bool sharded = candidate.option->parameters[index].is_shard();
  const double here = sharded ? elements / candidate.tensor : elements;
  const int holders = sharded ? candidate.data : span_.count;
  const OptimizerSharding sharding = settings_.sharding;
  const Bytes bytes = bytes_per_element();
  const double slice = here / holders;
  const bool shares = facts_.request().shares_memory && sharding == OptimizerSharding::none;
  terms.weights += bytes.weight * (shares || sharding == OptimizerSharding::zero3 ? slice : here);
  terms.gradients += bytes.gradient * (sharding >= OptimizerSharding::zero2 ? slice : here);
  terms.optimizer += bytes.state * (shares || sharding >= OptimizerSharding::zero1 ? slice : here);
  const auto updated = int64_t(sharding >= OptimizerSharding::zero1 ? slice : here);
  double update = 0;
  for (const Shard& shard : degree(candidate.tensor).shards)
    update = std::max(update, facts_.request().costs.update_seconds(updated, 1, shard.kind) / shard.speed);
  terms.update += update;
  add_traffic(sharded ? redistribution_costs_.data_ring(candidate.tensor) : redistribution_costs_.whole_ring(), holders,
              here, terms);
  if (elsewhere) terms.exposed += ring_all_reduce_seconds(entry_, 2, here * bytes.gradient);
}

/// Traffic of zero2 and zero3 is per micro-batch. overlap() subtracts the part that backward hides.
void StageCosts::add_traffic(const LinkCost& ring, int holders, double elements, StageTerms& terms) const {
  const Bytes bytes = bytes_per_element();
  const double half = ring_reduce_scatter_seconds(ring, holders, elements * bytes.gradient);
  const double gather = ring_reduce_scatter_seconds(ring, holders, elements * bytes.weight);
  switch (settings_.sharding) {
    case OptimizerSharding::none: terms.reduce += 2 * half; break;
    case OptimizerSharding::zero1:
      terms.reduce += half;
      terms.exposed += gather;
      break;
    case OptimizerSharding::zero2:
      terms.scatter += half;
      terms.exposed += gather;
      break;
    case OptimizerSharding::zero3:
      terms.scatter += half;
      terms.communication += (settings_.recompute ? 3 : 2) * gather;
      break;
  }
}

/// If computation and communication overlap, both take longer.
void StageCosts::overlap(StageTerms& terms) const {
  if (cluster_.overlap == Overlap::sums || cluster_.overlap == Overlap::messages)
    terms.scatter = std::max(0.0, terms.scatter - terms.hide);
  terms.communication += std::exchange(terms.scatter, 0.0);
  if (cluster_.overlap == Overlap::nothing) terms.exposed += std::exchange(terms.reduce, 0.0);
  if (cluster_.overlap != Overlap::all) return;
  terms.reduce *= cluster_.transfer_slowdown;
  terms.exposed += (1 - 1 / cluster_.compute_slowdown) * terms.reduce;
  terms.communication = std::max(0.0, cluster_.transfer_slowdown * terms.communication - terms.hide);
}

/// Bytes of the largest data shard.
double StageCosts::region(NodeId value, int tensor, const Placement& placement) const {
  return facts_.sample_bytes(value) * double(degree(tensor).samples) / (placement.is_shard() ? tensor : 1);
}

void StageCosts::add_entering(NodeId node, size_t i, double bytes, bool outside, StageTerms& terms) const {
  const LayerFacts& layer = facts_.layer(node);
  const bool own_run = facts_.model().node(node).inputs[i] >= layer.run;
  if (layer.first_in_run[i] || (outside && own_run)) terms.enters += activation_room_ * bytes;
}

StageTerms StageCosts::from_layer(NodeId node, size_t i, const Candidate& candidate, const StageLayout& made) const {
  StageTerms terms;
  const LayerFacts& layer = facts_.layer(node);
  const NodeId value = facts_.model().node(node).inputs[i];
  const ShardingOption& option = *candidate.option;
  const StageLayout wanted{candidate.tensor, option.inputs[i]}, gradient{made.tensor, gradient_needed(made.placement)};
  // The bytes that all workers hold together, if all shards were as large as the largest.
  const double bytes = region(value, candidate.tensor, Placement::replicate()) * candidate.data;
  terms.communication = redistribution_costs_.seconds(made, wanted, bytes);
  if (layer.gradient_goes[i])
    terms.communication +=
        redistribution_costs_.seconds({candidate.tensor, option.input_gradients[i]}, gradient, bytes);
  const double here = region(value, candidate.tensor, wanted.placement);
  if (layer.copy_kept[i] && !(made == wanted)) terms.kept = activation_room_ * here;
  add_entering(node, i, here, false, terms);
  return terms;
}

StageTerms StageCosts::from_outside(NodeId node, size_t i, const Candidate& candidate) const {
  StageTerms terms;
  const LayerFacts& layer = facts_.layer(node);
  const NodeId value = facts_.model().node(node).inputs[i];
  const Placement& wanted = candidate.option->inputs[i];
  const double here = region(value, candidate.tensor, wanted);
  if (layer.copy_kept[i]) terms.kept = activation_room_ * here;
  add_entering(node, i, here, true, terms);
  if (value < facts_.first_layer()) return terms;
  terms.communication = entry_.latency + here * entry_.seconds_per_byte;
  if (!layer.gradient_goes[i]) return terms;
  const Placement& gradient = candidate.option->input_gradients[i];
  const int summands = gradient.is_partial() ? candidate.tensor : 1;
  terms.communication +=
      summands * entry_.latency + region(value, candidate.tensor, gradient) * summands * entry_.seconds_per_byte;
  return terms;
}

StageTerms StageCosts::to_outside(NodeId node, const StageLayout& made) const {
  StageTerms terms;
  if (!made.placement.is_partial()) return terms;
  terms.communication =
      (made.tensor - 1) * (exit_.latency + region(node, made.tensor, made.placement) * exit_.seconds_per_byte);
  return terms;
}

}  // namespace trireme
