#include "forecast/finalists.h"

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
