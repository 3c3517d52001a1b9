#include "forecast/finalists.h"

#include <algorithm>
#include <utility>

#include "runtime/optimizer.h"
#include "schedule/kinds.h"

namespace trireme {
namespace {

bool is_plain(const Plan& plan) { return find_schedule(plan.schedule, plan.name).is_plain(); }

}  // namespace

int64_t least_memory(const Cluster& cluster, int devices) {
  int64_t least = 0;
  for (int i = 0; i < devices; ++i)
    if (const int64_t memory = cluster.devices[size_t(i)].memory; memory > 0 && (least == 0 || memory < least))
      least = memory;
  return least;
}

bool is_same(const Plan& a, Plan b) {
  if (a.micro_batches == 1 && is_plain(a) && is_plain(b))
    b.schedule = a.schedule;  // with one micro-batch, both fill and drain in the same way
  b.name = a.name;
  return a == b;
}

int parts_of(const Plan& plan) {
  int parts = int(plan.stages.size()) + plan.micro_batches + int(plan.optimizer_sharding != OptimizerSharding::none) +
              int(plan.sharding_group > 0);
  for (size_t i = 1; i < plan.layers.size(); ++i) {
    const LayerPlan &before = plan.layers[i - 1], &layer = plan.layers[i];
    parts += int(layer.stage == before.stage &&
                 std::pair(layer.data, layer.tensor) != std::pair(before.data, before.tensor));
  }
  return parts;
}

const Finalist* to_run(const std::vector<Finalist>& finalists, int devices) {
  const auto suits = [&](const Finalist& f) { return devices == 0 || f.rated.plan.devices == devices; };
  const auto fastest = std::find_if(finalists.begin(), finalists.end(), suits);
  if (fastest == finalists.end()) return nullptr;
  const Finalist* chosen = &*fastest;
  if (!chosen->fits_simulated) return chosen;
  const double limit = (1 + (chosen->is_measured ? kDoubt : kEqual)) * chosen->simulated;
  for (const Finalist& other : finalists) {
    if (!suits(other) || !other.fits_simulated || other.simulated > limit) continue;
    if (std::pair(parts_of(other.rated.plan), other.simulated) <
        std::pair(parts_of(chosen->rated.plan), chosen->simulated))
      chosen = &other;
  }
  return chosen;
}

PlanRequest plan_request(const Experiment& experiment, const Model& model, const CostSource& source) {
  PlanRequest request{.model = model, .cluster = source.cluster, .costs = *source.layers};
  request.batch = experiment.batch;
  request.bytes_per_value = experiment.precision == Precision::bf16   ? 2
                            : experiment.precision == Precision::fp64 ? 8
                                                                      : 4;
  request.optimizer_tensors = optimizer_state_count(experiment.optimizer);
  request.shares_memory = source.shares_memory;
  return request;
}

}  // namespace trireme
