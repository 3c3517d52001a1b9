#include "planner/asa.h"

#include <algorithm>
#include <numeric>

#include "plan/named.h"
#include "planner/exact/layout_graph.h"

namespace trireme {
namespace {

class Asa {
 public:
  explicit Asa(const PlanRequest& request) : request_(request), facts_(request), model_(facts_) {
    const int devices = request.cluster.size();
    for (int tensor = 1; tensor <= devices; ++tensor) {
      if (devices % tensor != 0 || devices / tensor > request.batch) continue;
      Plan plan = empty_plan();
      plan.layers[size_t(facts_.first_layer())] = {0, devices / tensor, tensor};
      if (!fills_all_shards(plan.mesh_of(facts_.first_layer()), request.batch)) continue;  // devices of unequal speeds
      degrees_.push_back(tensor);
      splits_.push_back(choose_splits(request.model, tensor, std::max<int64_t>(1, request.batch * tensor / devices)));
    }
  }

  const std::vector<int>& degrees() const { return degrees_; }

  /// A plan in which all layers have one strategy. `choice`: index of the tensor degree.
  RatedPlan uniform(int choice) const {
    Plan plan = empty_plan();
    for (NodeId node = facts_.first_layer(); node < facts_.end(); ++node) set(plan, node, choice);
    return rate(std::move(plan));
  }

  /// True if `a` is better: it exceeds the memory limits by less or, if both exceed them equally, it is faster.
  static bool better(const RatedPlan& a, const RatedPlan& b) {
    const double over_a = excess(a.prediction), over_b = excess(b.prediction);
    return over_a != over_b ? over_a < over_b : a.prediction.seconds < b.prediction.seconds;
  }

  /// Improves block after block, repeatedly, until no block has a better strategy.
  RatedPlan adapt(RatedPlan plan) const {
    for (bool changed = true; changed;) {
      changed = false;
      for (NodeId begin = facts_.first_layer(); begin < facts_.end(); begin = end_of_block(begin))
        changed |= adapt_block(begin, plan);
    }
    plan.plan.name = kAsa.name;
    return plan;
  }

 private:
  NodeId end_of_block(NodeId begin) const {
    NodeId end = begin;
    while (end < facts_.end() && facts_.layer(end).run == begin) ++end;
    return end;
  }

  /// Sets the block's best strategy. Returns true if it changed.
  bool adapt_block(NodeId begin, RatedPlan& best) const {
    bool found = false;
    for (int choice = 0; choice < int(degrees_.size()); ++choice) {
      Plan changed = best.plan;
      for (NodeId node = begin; node < end_of_block(begin); ++node) set(changed, node, choice);
      if (changed == best.plan || !cuts_alike(changed)) continue;
      RatedPlan rated = rate(std::move(changed));
      if (!better(rated, best)) continue;
      best = std::move(rated);
      found = true;
    }
    return found;
  }

  static double excess(const Prediction& prediction) {
    double most = 0;
    for (size_t s = 0; s < prediction.memory.size(); ++s)
      if (!fits_limit(prediction.memory[s].total(), prediction.limits[s]))
        most = std::max(most, prediction.memory[s].total() - prediction.limits[s]);
    return most;
  }

  Plan empty_plan() const {
    Plan plan;
    plan.name = kHybridStatic.name;
    plan.model = request_.model.name();
    plan.model_fingerprint = request_.model.fingerprint();
    plan.devices = request_.cluster.size();
    plan.stages.resize(1);
    plan.stages[0].resize(size_t(plan.devices));
    std::iota(plan.stages[0].begin(), plan.stages[0].end(), 0);
    plan.layers.resize(request_.model.nodes().size());
    for (const Device& device : request_.cluster.devices) plan.speeds.push_back(device.speed);
    if (std::all_of(plan.speeds.begin(), plan.speeds.end(), [&](double s) { return s == plan.speeds.front(); }))
      plan.speeds.clear();
    return plan;
  }

  void set(Plan& plan, NodeId node, int choice) const {
    const int tensor = degrees_[size_t(choice)];
    plan.layers[size_t(node)] = {0, plan.devices / tensor, tensor, splits_[size_t(choice)][size_t(node)]};
  }

  RatedPlan rate(Plan plan) const {
    RatedPlan rated{std::move(plan), {}, 0};
    rated.prediction = model_.predict(rated.plan);
    rated.objective = rated.prediction.seconds;
    return rated;
  }

  bool cuts_alike(const Plan& plan) const {
    for (size_t group = 0; group < facts_.tied().size(); ++group) {
      std::optional<TiedCut> first;
      for (const NodeId node : facts_.tied()[group]) {
        const ShardingOption option = option_of(plan, request_.model, node);
        const Candidate candidate{plan.layers[size_t(node)].data, plan.layers[size_t(node)].tensor, &option};
        for (size_t p = 0; p < facts_.layer(node).parameters.size(); ++p) {
          if (facts_.layer(node).parameters[p].tied != int(group)) continue;
          if (!first) first = cut_of(candidate, p);
          if (!(*first == cut_of(candidate, p))) return false;
        }
      }
    }
    return true;
  }

  const PlanRequest& request_;
  const ModelFacts facts_;
  const StepModel model_;
  std::vector<int> degrees_;                      // of the tensor axis
  std::vector<std::vector<std::string>> splits_;  // by degree and node
};

/// The best uniform plan, even if it does not fit.
std::optional<RatedPlan> best_uniform(const Asa& asa) {
  std::optional<RatedPlan> best;
  for (int choice = 0; choice < int(asa.degrees().size()); ++choice) {
    RatedPlan plan = asa.uniform(choice);
    if (!best || Asa::better(plan, *best)) best = std::move(plan);
  }
  return best;
}

}  // namespace

std::vector<RatedPlan> plan_hybrid_static_and_asa(const PlanRequest& request) {
  const Asa asa(request);
  std::vector<RatedPlan> plans;
  const std::optional<RatedPlan> uniform = best_uniform(asa);
  if (!uniform) return plans;
  if (uniform->prediction.fits()) plans.push_back(*uniform);
  RatedPlan adapted = asa.adapt(*uniform);
  if (adapted.prediction.fits()) plans.push_back(std::move(adapted));
  return plans;
}

std::optional<RatedPlan> plan_asa(const PlanRequest& request) {
  for (RatedPlan& plan : plan_hybrid_static_and_asa(request))
    if (plan.plan.name == kAsa.name) return std::move(plan);
  return {};
}

std::optional<RatedPlan> plan_hybrid_static(const PlanRequest& request) {
  std::optional<RatedPlan> best = best_uniform(Asa(request));
  if (best && !best->prediction.fits()) return {};
  return best;
}

}  // namespace trireme
