#include "planner/exact/step_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/seconds.h"
#include "schedule/kinds.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// The totals of a stage.
struct StageSum {
  StageTerms terms;
  double exposed_reduction = 0;  ///< remaining when backward ends
  double largest_run = 0;        ///< bytes that the largest run retains for one micro-batch
};

bool recomputes(const Plan& plan, const ModelFacts& facts) {
  return std::any_of(plan.layers.begin() + facts.first_layer(), plan.layers.end(),
                     [](const LayerPlan& l) { return !l.recompute.empty(); });
}

/// True if the plan's speeds are those of the cluster. A plan without speeds has equal speeds.
bool knows_speeds(const Plan& plan, const Cluster& cluster) {
  for (int i = 0; i < plan.devices; ++i) {
    const double here = plan.speeds.empty() ? 1 : plan.speeds[size_t(i)] / plan.speeds[0];
    if (std::abs(here - cluster.devices[size_t(i)].speed / cluster.devices[0].speed) > 1e-9) return false;
  }
  return true;
}

PipelinePlace shape_of(const Plan& plan) {
  const int positions = plan.positions();
  return {.depth = positions,
          .chunks = std::max(1, int(plan.stages.size()) / positions),
          .micro_batches = plan.micro_batches};
}

/// The plan's candidate for a layer; it may be outside the request's space.
Candidate candidate_of(const ModelFacts& facts, const Plan& plan, NodeId node) {
  const LayerPlan& layer = plan.layers[size_t(node)];
  for (const ShardingOption& option : facts.options(node, layer.tensor))
    if (option.name == layer.split) return {layer.data, layer.tensor, &option};
  check_internal(false, fmt::format("layer {} cannot be divided as the plan says", facts.model().node(node).name));
  return {};
}

class StageSumming {
 public:
  StageSumming(const ModelFacts& facts, const StageCosts& costs, const Plan& plan, int stage)
      : facts_(facts), costs_(costs), plan_(plan), stage_(stage), shared_(facts.tied().size(), false) {}

  StageSum run() {
    StageSum sum;
    double run_bytes = 0;
    std::vector<StageTerms> layers;
    NodeId first = 0;
    for (NodeId node = facts_.first_layer(); node < facts_.end(); ++node) {
      if (plan_.layers[size_t(node)].stage != stage_) continue;
      if (layers.empty()) first = node;
      layers.push_back(terms_of(node));
      sum.terms.add(layers.back());
      if (facts_.layer(node).run == node || node == first) run_bytes = 0;
      run_bytes += layers.back().kept;
      sum.largest_run = std::max(sum.largest_run, run_bytes);
    }
    for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer)
      sum.exposed_reduction = std::max(0.0, sum.exposed_reduction - layer->hide) + layer->reduce;
    return sum;
  }

 private:
  StageTerms terms_of(NodeId node) {
    const Candidate candidate = candidate_of(facts_, plan_, node);
    StageTerms terms = costs_.own(node, candidate, shared_);
    for (const ParameterFacts& p : facts_.layer(node).parameters)
      if (p.tied >= 0) shared_[size_t(p.tied)] = true;
    const std::vector<NodeId>& inputs = facts_.model().node(node).inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool here = inputs[i] >= facts_.first_layer() && plan_.layers[size_t(inputs[i])].stage == stage_;
      terms.add(here ? costs_.from_layer(node, i, candidate, candidate_of(facts_, plan_, inputs[i]).output())
                     : costs_.from_outside(node, i, candidate));
    }
    const std::vector<NodeId>& consumers = facts_.model().consumers(node);
    if (std::any_of(consumers.begin(), consumers.end(),
                    [&](NodeId c) { return plan_.layers[size_t(c)].stage != stage_; }))
      terms.add(costs_.to_outside(node, candidate.output()));
    return terms;
  }

  const ModelFacts& facts_;
  const StageCosts& costs_;
  const Plan& plan_;
  const int stage_;
  std::vector<bool> shared_;
};

DeviceMemory memory_of(const StageSum& sum, const StageSettings& settings, double copies, double micro_batches) {
  const StageTerms& t = sum.terms;
  const double activations = settings.recompute ? micro_batches * t.enters + sum.largest_run : micro_batches * t.kept;
  return {copies * t.weights, copies * t.gradients, copies * t.optimizer, activations, t.workspace};
}

/// Sets the parts of `seconds`, from the deciding stage.
void split_seconds(const StageSum& stage, const StageSettings& settings, double once, Prediction& prediction) {
  const StageTerms& t = stage.terms;
  prediction.compute = once * settings.micro_batches * (t.compute + t.weight_compute);
  prediction.communication = once * settings.micro_batches * t.communication;
  prediction.reduction = once * (t.exposed + stage.exposed_reduction);
  prediction.update = once * t.update;
  prediction.bubble =
      prediction.seconds - prediction.compute - prediction.communication - prediction.reduction - prediction.update;
}

}  // namespace

bool Prediction::fits() const {
  for (size_t s = 0; s < memory.size(); ++s)
    if (!fits_limit(memory[s].total(), limits[s])) return false;
  return true;
}

double Prediction::fullest() const {
  double most = 0;
  for (const DeviceMemory& device : memory) most = std::max(most, device.total());
  return most;
}

double price_per_hour(const Cluster& cluster, int devices) {
  double price = 0;
  std::set<int> seen;
  for (int i = 0; i < devices; ++i) {
    const int node = cluster.devices[size_t(i)].node;
    if (seen.insert(node).second && size_t(node) < cluster.nodes.size())
      price += cluster.nodes[size_t(node)].price_per_hour;
  }
  return price;
}

std::optional<std::string> StepModel::unknown(const Plan& plan) const {
  const Schedule* schedule = look_up_schedule(plan.schedule);
  if (!schedule || !schedule->step_rule) return fmt::format("schedule {}: batches overlap", plan.schedule);
  if (plan.compression.kind != Compression::Kind::none) return "compressed gradients";
  if (!plan.recompute_last) return "recomputation except for the last micro-batch";
  if (plan.scatter_messages) return "messages in slices";
  if (plan.sharding_group > 0) return "optimizer sharding in groups of workers";
  if (plan.recompute_communication) return "recomputation with its communication";
  if (plan.devices > facts_.request().cluster.size()) return "more devices than the cluster has";
  if (!knows_speeds(plan, facts_.request().cluster)) return "speeds that are not the cluster's";
  const int p = plan.positions(), stages = int(plan.stages.size());
  if (stages > p && (!schedule->chunked || stages % p != 0))
    return "several stages per worker under a schedule for one";
  int next = 0;
  for (int s = 0; s < stages; ++s) {
    const std::vector<int>& workers = plan.stages[size_t(s)];
    if (s >= p ? workers != plan.stages[size_t(schedule->position_of(s, p))] : workers.front() != next)
      return "stages that are not on consecutive devices";
    if (workers.back() - workers.front() + 1 != int(workers.size()))
      return "a stage that is not on consecutive devices";
    next = workers.back() + 1;
  }
  int stage = 0;
  const bool may_recompute = recomputes(plan, facts_);
  for (NodeId node = facts_.first_layer(); node < facts_.end(); ++node) {
    const LayerPlan& layer = plan.layers[size_t(node)];
    if (layer.stage < stage) return "stages that are not runs of layers";
    if (may_recompute && layer.recompute != facts_.recompute_labels()[size_t(node)]) return "custom recompute labels";
    stage = layer.stage;
  }
  return {};
}

const StageCosts& StepModel::costs(DeviceSpan span, const StageSettings& settings) const {
  std::unique_ptr<StageCosts>& costs = costs_[{span.first, span.count, settings}];
  if (!costs) costs = std::make_unique<StageCosts>(facts_, settings, span);
  return *costs;
}

Prediction StepModel::predict(const Plan& plan) const {
  if (const auto why = unknown(plan))
    fail_user({fmt::format("plan {}", plan.name), *why, "the planner's step model has no formula for it",
               "simulate or run it instead"});
  const Schedule& schedule = find_schedule(plan.schedule, plan.name);
  const PipelinePlace shape = shape_of(plan);
  const StepRule rule = schedule.step_rule(shape);
  const StageSettings settings{plan.micro_batches, plan.optimizer_sharding, recomputes(plan, facts_),
                               schedule.splits_backward, plan.devices == 1};
  Prediction prediction;
  std::vector<StageSum> stages;
  double fill = 0, longest = -1;
  for (int s = 0; s < int(plan.stages.size()); ++s) {
    const std::vector<int>& workers = plan.stages[size_t(s)];
    const StageCosts& at = costs({workers.front(), int(workers.size())}, settings);
    stages.push_back(StageSumming(facts_, at, plan, s).run());
    const StageSum& sum = stages.back();
    fill += fill_seconds(rule, sum.terms);
    const double main = main_seconds(rule, sum.terms) + rule.once * sum.exposed_reduction;
    if (main > longest) prediction.deciding_stage = s;
    longest = std::max(longest, main);
    const double micro_batches = schedule.in_flight(shape, int(plan.stages.size()) - s);
    prediction.memory.push_back(memory_of(sum, settings, rule.once, micro_batches));
    prediction.limits.push_back(at.memory_limit());
  }
  prediction.seconds = fill + longest;
  split_seconds(stages[size_t(prediction.deciding_stage)], settings, rule.once, prediction);
  prediction.money = prediction.seconds / kSecondsPerHour * price_per_hour(facts_.request().cluster, plan.devices);
  return prediction;
}

}  // namespace trireme
