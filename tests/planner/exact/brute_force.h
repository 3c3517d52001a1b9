// Lists every plan of a small space and predicts each as a whole with the step model.
#pragma once

#include <functional>
#include <map>
#include <set>

#include "planner/exact/find_plan.h"
#include "schedule/kinds.h"

namespace trireme {

/// Independent of the planner's search: follows only the definition of the space (request.h).
class BruteForce {
 public:
  explicit BruteForce(const PlanRequest& request)
      : request_(request), model_(request.model), facts_(request), step_(facts_) {}

  /// Calls `visit` with every plan; stops after `most` plans.
  void all(size_t most, const std::function<void(const Plan&)>& visit) {
    most_ = most;
    visit_ = visit;
    for (const int m : request_.space.micro_batches)
      for (const OptimizerSharding sharding : request_.space.shardings)
        for (const bool recompute : {false, true}) {
          if (recompute ? !request_.space.may_recompute : !request_.space.may_keep) continue;
          for (const std::string& schedule : request_.space.schedules) pipelines(schedule, m, sharding, recompute);
        }
  }

  size_t visited() const { return visited_; }
  const StepModel& step() const { return step_; }

 private:
  void pipelines(const std::string& schedule, int m, OptimizerSharding sharding, bool recompute) {
    plan_ = Plan{};
    plan_.model = model_.name();
    plan_.model_fingerprint = model_.fingerprint();
    plan_.schedule = schedule;
    plan_.micro_batches = m;
    plan_.optimizer_sharding = sharding;
    plan_.layers.resize(model_.nodes().size());
    if (recompute)
      for (NodeId node = model_.input_count(); node < NodeId(model_.nodes().size()); ++node)
        plan_.layers[size_t(node)].recompute = facts_.recompute_labels()[size_t(node)];
    if (find_schedule(schedule, "brute force").chunked) return chunked();
    add_stage(0, schedule == "zero-bubble");
  }

  /// Adds the next stage: first its devices, then its layers.
  void add_stage(int device, bool equal) {
    for (int size = 1; device + size <= request_.cluster.size(); ++size) {
      if (equal && !plan_.stages.empty() && size != int(plan_.stages.front().size())) continue;
      plan_.stages.push_back(run(device, size));
      plan_.devices = device + size;
      cut(equal);
      plan_.stages.pop_back();
    }
  }

  static std::vector<int> run(int first, int size) {
    std::vector<int> workers;
    for (int i = 0; i < size; ++i) workers.push_back(first + i);
    return workers;
  }

  int first_of_stage() const { return begins_.empty() ? model_.input_count() : begins_.back(); }

  /// Tries every end of the last stage: it is the final stage, or ends before some layer.
  void cut(bool equal) {
    const auto layers = NodeId(model_.nodes().size());
    begins_.push_back(layers);
    plan_.speeds = speeds_of(plan_.devices);
    divide(model_.input_count(), 0);
    begins_.pop_back();
    for (NodeId next = first_of_stage() + 1; next < layers; ++next) {
      begins_.push_back(next);
      add_stage(plan_.stages.back().back() + 1, equal);
      begins_.pop_back();
    }
  }

  /// All plans with chunks: of interleaved, stage i runs on the devices of stage i mod p; of zero-bubble-v, stage p + i
  /// on those of stage p - 1 - i.
  void chunked() {
    const bool back = plan_.schedule == "zero-bubble-v";
    for (const int chunks : request_.space.chunks)
      for (int p = 2; p <= request_.cluster.size(); ++p)
        for (int size = 1; p * size <= request_.cluster.size(); ++size) {
          if (back ? chunks != 2 : chunks < 2 || plan_.micro_batches % p != 0) continue;
          for (int s = 0; s < p * chunks; ++s)
            plan_.stages.push_back(run((back && s >= p ? 2 * p - 1 - s : s % p) * size, size));
          plan_.devices = p * size;
          cut_into(p * chunks);
          plan_.stages.clear();
        }
  }

  void cut_into(int stages) {
    const auto layers = NodeId(model_.nodes().size());
    if (stages == 1) {
      begins_.push_back(layers);
      plan_.speeds = speeds_of(plan_.devices);
      divide(model_.input_count(), 0);
      begins_.pop_back();
      return;
    }
    for (NodeId next = first_of_stage() + 1; next < layers; ++next) {
      begins_.push_back(next);
      cut_into(stages - 1);
      begins_.pop_back();
    }
  }

  /// Empty if all speeds are equal.
  std::vector<double> speeds_of(int devices) const {
    std::vector<double> speeds;
    for (int i = 0; i < devices; ++i) speeds.push_back(request_.cluster.devices[size_t(i)].speed);
    if (std::set<double>(speeds.begin(), speeds.end()).size() == 1) speeds.clear();
    return speeds;
  }

  /// Tries every way to divide layer `node` and the layers after it.
  void divide(NodeId node, int stage) {
    if (visited_ >= most_) return;
    if (node == NodeId(model_.nodes().size())) {
      ++visited_;
      visit_(plan_);
      return;
    }
    while (node >= begins_[size_t(stage)]) ++stage;
    const auto workers = int(plan_.stages[size_t(stage)].size());
    for (int tensor = 1; tensor <= workers; ++tensor) {
      if (workers % tensor != 0 || (request_.space.most_tensor > 0 && tensor > request_.space.most_tensor)) continue;
      const int data = workers / tensor;
      plan_.layers[size_t(node)].stage = stage;
      plan_.layers[size_t(node)].data = data;
      plan_.layers[size_t(node)].tensor = tensor;
      const int64_t least = request_.batch / plan_.micro_batches, m = plan_.micro_batches;
      const Mesh mesh = plan_.mesh_of(node);
      if (!fills_all_shards(mesh, least) || !fills_all_shards(mesh, (request_.batch + m - 1) / m)) continue;
      for (const ShardingOption& option : facts_.options(node, tensor)) {
        LayerPlan& layer = plan_.layers[size_t(node)];
        layer = {stage, data, tensor, option.name, layer.recompute};
        if (ties_agree(node, option)) divide(node + 1, stage);
      }
    }
  }

  /// True if the layer's tied parameters have the same placement in the layers before it.
  bool ties_agree(NodeId node, const ShardingOption& option) const {
    const auto mine = model_.node(node).layer->parameters();
    for (NodeId other = model_.input_count(); other < node; ++other) {
      const auto theirs = model_.node(other).layer->parameters();
      for (size_t a = 0; a < mine.size(); ++a)
        for (size_t b = 0; b < theirs.size(); ++b) {
          if (mine[a].name != theirs[b].name) continue;
          const Placement there = option_of(plan_, model_, other).parameters[b];
          const bool same_degree = plan_.layers[size_t(node)].tensor == plan_.layers[size_t(other)].tensor;
          if (there != option.parameters[a] || (there.is_shard() && !same_degree)) return false;
        }
    }
    return true;
  }

  const PlanRequest& request_;
  const Model& model_;
  const ModelFacts facts_;
  const StepModel step_;
  Plan plan_;
  std::vector<NodeId> begins_;  // first layer of stage 1, 2, ...; then the number of nodes
  size_t visited_ = 0, most_ = 0;
  std::function<void(const Plan&)> visit_;
};

}  // namespace trireme
