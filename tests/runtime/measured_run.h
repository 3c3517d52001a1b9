// Runs two steps of real workers under a plan and measures their memory.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "base/memory.h"
#include "runtime/worker.h"
#include "runtime/worker_threads.h"
#include "trireme/plan.h"

namespace trireme::test_support {

inline Batch ones_batch(int64_t samples, int64_t features) {
  return {samples, [features](Range range) {
            return std::vector<at::Tensor>{at::ones({range.size(), features}), at::zeros({range.size()}, at::kLong)};
          }};
}

struct MeasuredRun {
  std::vector<MemoryUse> rest;      ///< by rank, after the steps; peaks are those of the second step
  std::vector<int64_t> recomputed;  ///< segments in the second step
};

/// `program` is the compiled `plan`.
inline MeasuredRun measure_run(const Model& model, const Plan& plan, const Program& program, const Batch& batch,
                               const OptimizerConfig& optimizer = {}, Precision precision = Precision::fp32) {
  install_memory_accounting();
  const auto n = size_t(plan.devices);
  MeasuredRun ran{std::vector<MemoryUse>(n), std::vector<int64_t>(n)};
  LocalWorld world(plan.devices);
  ParameterStore store(program, precision);
  run_worker_threads(world, [&](int rank) {
    Worker worker(rank, model, &program, nullptr, store, world, {.seed = 1, .optimizer = optimizer});
    worker.train({.step = 0, .batch = batch, .learning_rate = 0.01});
    worker.settle();
    worker.barrier();
    reset_memory_peak(rank);
    const StepOutcome outcome = worker.train({.step = 1, .batch = batch, .learning_rate = 0.01, .trace = true});
    worker.settle();
    ran.rest[size_t(rank)] = memory_use(rank);
    ran.recomputed[size_t(rank)] = std::count_if(outcome.events.begin(), outcome.events.end(),
                                                 [](const Event& e) { return e.kind == EventKind::recompute; });
    worker.barrier();
  });
  return ran;
}

}  // namespace trireme::test_support
