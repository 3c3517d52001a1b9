#include "planner/exact/configurations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/infinity.h"
#include "base/text.h"
#include "schedule/kinds.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr int kEverySize = 8;       // up to this many devices, a stage or a pipeline may have any number of them
constexpr int kUnequalStages = 16;  // up to this many devices, stages may have different numbers of them
constexpr int kMicroBatchesPerDevice = 8;

void check_space(const PlanRequest& request) {
  const PlanSpace& space = request.space;
  for (const std::string& schedule : space.schedules)
    if (const Schedule* known = look_up_schedule(schedule); !known || !known->step_rule)
      fail_user({"planner", fmt::format("schedule {}", schedule), "the step model has no formula for it",
                 "use one of " + join(schedule_names([](const Schedule& s) { return s.step_rule != nullptr; }))});
  if (space.schedules.empty())
    fail_user({"planner", "no schedules", "the space of plans is empty", "allow at least one"});
  if (space.shardings.empty() || (!space.may_keep && !space.may_recompute))
    fail_user({"planner", "no optimizer sharding, or neither keeping nor recomputing activations",
               "the space of plans is empty", "allow at least one of each"});
  for (const int m : space.micro_batches)
    if (m < 1 || m > request.batch)
      fail_user({"planner", fmt::format("{} micro-batches", m), fmt::format("the batch has {} samples", request.batch),
                 "use fewer"});
  for (const int size : space.stage_sizes)
    if (size < 1 || size > request.cluster.size())
      fail_user({"planner", fmt::format("stages of {} devices", size),
                 fmt::format("the cluster has {}", request.cluster.size()), "use from 1 to that many"});
}

/// The numbers of devices that a stage, or a pipeline of stages with equally many devices, may have.
std::vector<int> usual_counts(const Cluster& cluster) {
  std::set<int> counts;
  const int devices = cluster.size();
  if (devices <= kEverySize) {
    for (int count = 1; count <= devices; ++count) counts.insert(count);
    return {counts.begin(), counts.end()};
  }
  int node = 0;  // devices of the first node
  while (node < devices && cluster.devices[size_t(node)].node == cluster.devices[0].node) ++node;
  for (int count = 1; count <= devices; count *= 2) counts.insert(count);
  for (int count = 1; count <= devices; ++count)
    if (devices % count == 0) counts.insert(count);
  for (int count = node; count <= devices; count *= 2) counts.insert(count);
  return {counts.begin(), counts.end()};
}

class Configurations {
 public:
  Configurations(const PlanRequest& request, StageSearches& searches)
      : request_(request), searches_(searches), space_(request.space) {}

  std::vector<BoundedConfiguration> all() {
    sizes_ = stage_sizes_of(request_);
    for (const int m : micro_batches_of(request_))
      for (const OptimizerSharding sharding : space_.shardings)
        for (const bool recompute : {false, true}) {
          if (recompute ? !space_.may_recompute : !space_.may_keep) continue;
          add_all({.micro_batches = m, .sharding = sharding, .recompute = recompute});
        }
    std::stable_sort(configurations_.begin(), configurations_.end(),
                     [](const BoundedConfiguration& a, const BoundedConfiguration& b) { return a.bound < b.bound; });
    return std::move(configurations_);
  }

 private:
  void add_all(const StageSettings& settings) {
    const int devices = request_.cluster.size();
    // Plain schedules take the same time. Without a pipeline and micro-batches they are identical.
    const Schedule* plain = allowed(&lean_schedule());
    for (const Schedule& schedule : known_schedules())
      if (!plain && schedule.is_plain()) plain = allowed(&schedule);
    const Schedule* flat = settings.micro_batches == 1 && allowed(&usual_schedule()) ? &usual_schedule() : plain;
    for (const Schedule& schedule : known_schedules())
      if (!flat && !schedule.chunked) flat = allowed(&schedule);
    for (const int size : sizes_) {
      StageSettings alone = settings;
      alone.alone = size == 1;
      if (flat) add(configuration({flat, alone, 1, 1, {size}, size}));
    }
    if (devices == 1) return;
    if (plain && !has_equal_stages(request_)) add({plain, settings, 1, 0, sizes_, devices});
    else if (plain) add_shapes({plain, settings}, 1);
    for (const Schedule& schedule : known_schedules())
      if (allowed(&schedule) && !schedule.chunked && !schedule.is_plain())
        add_shapes(configuration({&schedule, settings}), 1);
    for (const Schedule& schedule : known_schedules())
      for (const int chunks : space_.chunks)
        if (allowed(&schedule) && schedule.chunked && chunks > 1)
          add_shapes(configuration({&schedule, settings}), chunks);
  }

  /// Null if the request does not allow it.
  const Schedule* allowed(const Schedule* schedule) const {
    return std::find(space_.schedules.begin(), space_.schedules.end(), schedule->name) == space_.schedules.end()
               ? nullptr
               : schedule;
  }

  static PipelineConfiguration configuration(PipelineConfiguration configuration) {
    configuration.settings.splits_backward = configuration.schedule->splits_backward;
    return configuration;
  }

  /// Adds all pipelines of stages with equally many devices.
  void add_shapes(PipelineConfiguration configuration, int chunks) {
    for (const int size : sizes_)
      for (const int devices : usual_counts(request_.cluster)) {
        const int p = devices / size;
        if (devices % size != 0 || p < 2 || p * chunks > searches_.model_segments().units()) continue;
        if (!configuration.schedule->fits(
                {.depth = p, .chunks = chunks, .micro_batches = configuration.settings.micro_batches}))
          continue;
        configuration.chunks = chunks;
        configuration.positions = p;
        configuration.sizes = {size};
        configuration.devices = devices;
        add(configuration);
      }
  }

  void add(const PipelineConfiguration& configuration) {
    configurations_.push_back({configuration, bound(configuration)});
  }

  /// A lower bound on the step time: device-seconds of all micro-batches over the devices, as if each stage were always
  /// busy.
  double bound(const PipelineConfiguration& configuration) {
    const int m = configuration.settings.micro_batches;
    const double weight =
        configuration.schedule
            ->step_rule({.depth = configuration.positions, .chunks = configuration.chunks, .micro_batches = m})
            .least_weight;
    double sum = 0;
    const auto& work = work_of(configuration.settings);
    for (size_t layer = 0; layer < work.front().size(); ++layer) {
      double least = kInfinity;
      for (size_t s = 0; s < sizes_.size(); ++s) {
        if (std::find(configuration.sizes.begin(), configuration.sizes.end(), sizes_[s]) == configuration.sizes.end())
          continue;
        const Work& here = work[s][layer];
        least = std::min(least, m * here.compute + weight * here.weight);
      }
      sum += least;
    }
    return sum / configuration.devices;
  }

  struct Work {
    double compute = kInfinity, weight = kInfinity;  // device-seconds, each the minimum over candidates
  };
  using WorkBySize = std::vector<std::vector<Work>>;  // by size and layer

  const WorkBySize& work_of(const StageSettings& settings) {
    const auto [it, fresh] = work_.try_emplace(settings);
    if (!fresh) return it->second;
    const ModelFacts& facts = searches_.model_segments().facts();
    for (const int size : sizes_) {
      std::map<int, Work> by_class;
      std::set<const StageCosts*> seen;
      for (int first = 0; first + size <= request_.cluster.size(); ++first) {
        const StageCosts& costs = searches_.layout_graph({first, size}, settings, {}).costs();
        if (!seen.insert(&costs).second) continue;
        add_work(facts, costs, by_class);
      }
      it->second.emplace_back();
      for (NodeId node = facts.first_layer(); node < facts.end(); ++node)
        it->second.back().push_back(by_class[facts.layer(node).layer_class]);
    }
    return it->second;
  }

  static void add_work(const ModelFacts& facts, const StageCosts& costs, std::map<int, Work>& by_class) {
    std::set<int> done;
    for (NodeId node = facts.first_layer(); node < facts.end(); ++node) {
      const int layer_class = facts.layer(node).layer_class;
      if (!done.insert(layer_class).second) continue;
      Work& work = by_class[layer_class];
      for (const Candidate& candidate : costs.candidates(node)) {
        const StageTerms terms = costs.own(node, candidate, std::vector<bool>(facts.tied().size(), false));
        work.compute = std::min(work.compute, costs.span().count * terms.compute);
        work.weight = std::min(work.weight, costs.span().count * terms.weight_compute);
      }
    }
  }

  const PlanRequest& request_;
  StageSearches& searches_;
  const PlanSpace& space_;
  std::vector<int> sizes_;
  std::map<StageSettings, WorkBySize> work_;
  std::vector<BoundedConfiguration> configurations_;
};

}  // namespace

std::vector<int> stage_sizes_of(const PlanRequest& request) {
  const std::set<int> sizes(request.space.stage_sizes.begin(), request.space.stage_sizes.end());
  if (!sizes.empty()) return {sizes.begin(), sizes.end()};
  return usual_counts(request.cluster);
}

std::vector<int> micro_batches_of(const PlanRequest& request) {
  if (!request.space.micro_batches.empty()) return request.space.micro_batches;
  const int64_t most = std::min<int64_t>(request.batch, int64_t(kMicroBatchesPerDevice) * request.cluster.size());
  std::set<int> counts;
  for (int64_t m = 1; m <= most; m *= 2) counts.insert(int(m));
  for (int64_t m = 1; m <= most; ++m)
    if (request.batch % m == 0) counts.insert(int(m));
  return {counts.begin(), counts.end()};
}

bool has_equal_stages(const PlanRequest& request) {
  return request.space.equal_stages.value_or(request.cluster.size() > kUnequalStages);
}

std::vector<BoundedConfiguration> make_configurations(const PlanRequest& request, StageSearches& searches) {
  check_space(request);
  return Configurations(request, searches).all();
}

}  // namespace trireme
