#include "train/lockstep.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/devices/device.h"
#include "program/compile.h"
#include "runtime/worker.h"
#include "runtime/worker_threads.h"

namespace trireme {
namespace {

Snapshot take(const Program& program, const ParameterStore& store) {
  Snapshot snapshot;
  for (int p = 0; p < int(program.parameters.size()); ++p) {
    snapshot.names.push_back(program.parameters[size_t(p)].spec.name);
    snapshot.parameters.push_back(store.full_parameter(p));
    snapshot.gradients.push_back(store.full_gradient(p));
    snapshot.averages.push_back(store.full_average(p));
  }
  return snapshot;
}

}  // namespace

std::vector<Snapshot> run_lockstep(const Model& model, const Plan& plan,
                                   const std::function<Batch(int64_t step)>& batch_of, const LockstepOptions& options) {
  Program program = compile(model, plan,
                            {.clip_gradients = options.clip_norm > 0,
                             .layer_norms = options.worker.optimizer.is_layerwise(),
                             .keep_gradients = !options.one_pass,
                             .mixed_precision = options.precision == Precision::bf16,
                             .batch_norm = options.worker.batch_norm,
                             .private_replicas = options.private_replicas,
                             .frozen = options.frozen});
  LocalWorld world(plan.devices);
  const PlacedDevices places(0, options.places);
  ParameterStore store(program, options.precision);
  std::vector<Snapshot> snapshots(static_cast<size_t>(options.steps));
  std::vector<std::vector<double>> losses(size_t(options.steps), std::vector<double>(size_t(plan.devices)));
  std::vector<std::vector<double>> squares(size_t(options.steps), std::vector<double>(size_t(plan.devices), NAN));
  run_worker_threads(world, [&](int rank) {
    Worker worker(rank, model, &program, nullptr, store, world, options.worker);
    for (int64_t step = 0; step < options.steps; ++step) {
      Batch batch = batch_of(step);
      const double rate = options.learning_rate_of ? options.learning_rate_of(step) : options.learning_rate;
      const bool anew = step == 0 || (options.starts_anew && options.starts_anew(step));
      StepOutcome outcome = worker.train(
          {.step = step, .batch = batch, .learning_rate = rate, .clip_norm = options.clip_norm, .starts_stream = anew});
      losses[size_t(step)][size_t(rank)] = outcome.loss_sum / double(batch.samples);
      if (outcome.gradient_squares) squares[size_t(outcome.updated_step)][size_t(rank)] = *outcome.gradient_squares;
      const bool drains = options.drain_every > 0 && (step + 1) % options.drain_every == 0;
      if (!program.flushes && !drains && step + 1 < options.steps) continue;
      worker.drain();
      worker.settle();
      worker.barrier();
      if (rank == 0) snapshots[size_t(step)] = take(program, store);
      worker.barrier();
    }
  });
  for (size_t s = 0; s < snapshots.size(); ++s) {
    for (double loss : losses[s]) snapshots[s].loss += loss;
    snapshots[s].gradient_norm = std::sqrt(std::accumulate(squares[s].begin(), squares[s].end(), 0.0));
  }
  return snapshots;
}

double relative_difference(const at::Tensor& a, const at::Tensor& b, double floor) {
  const double largest = b.abs().max().item<double>(), scale = std::max(largest, floor);
  const double difference = (a - b).abs().max().item<double>();
  if (!std::isfinite(largest) || !std::isfinite(difference)) return std::numeric_limits<double>::infinity();
  if (difference == 0) return 0;
  return scale > 0 ? difference / scale : difference;
}

}  // namespace trireme
