#include "runtime/worker/gradients.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "base/devices/device.h"
#include "runtime/layerwise.h"

namespace trireme {
namespace {

/// A sum is one pass without extra memory, and it is not finite if an element is not finite. Only if the sum is not
/// finite (it may have overflowed) are the elements checked.
bool all_finite(const at::Tensor& values) {
  return std::isfinite(values.sum().item<double>()) || values.isfinite().all().item<bool>();
}

/// The same on a device, without waiting for it: the sums are read at the end of the step. A whole gradient needs one
/// sum only, because parts to which nothing was written are finite.
void defer_check(BucketId id, bool is_whole, const Program& program, Replicas& replicas, DeferredNumbers& numbers) {
  const std::vector<ParameterShard>& shards = program.buckets[size_t(id)].shards;
  const auto name = [&](const ParameterShard& shard) { return program.parameters[size_t(shard.parameter)].spec.name; };
  std::vector<size_t> written;
  for (size_t s = 0; s < shards.size(); ++s)
    if (replicas.written(id, int(s))) written.push_back(s);
  if (written.empty()) return;
  const at::Tensor flat = replicas.gradient(id);
  if (is_whole && shards.size() > 1) {
    numbers.add_gradient_sum(flat.sum(at::kDouble),
                             fmt::format("one of {} to {}", name(shards.front()), name(shards.back())));
    return;
  }
  for (const size_t s : written)
    numbers.add_gradient_sum(flat.narrow(0, shards[s].offset, shards[s].size()).sum(at::kDouble), name(shards[s]));
}

}  // namespace

std::string not_finite_before(const Instruction& reduction, const Program& program, Replicas& replicas,
                              DeferredNumbers& numbers) {
  // A single holder continues to add to its whole gradient, so one check per batch is enough.
  const bool is_whole = program.optimizer_sharding < OptimizerSharding::zero2;
  if (!program.private_replicas || (is_whole && !reduction.last)) return "";
  const std::vector<ParameterShard>& shards = program.buckets[size_t(reduction.index)].shards;
  if (!worker_place().is_cpu()) {
    defer_check(reduction.index, is_whole, program, replicas, numbers);
    return "";
  }
  for (size_t s = 0; s < shards.size(); ++s) {
    if (!replicas.written(reduction.index, int(s))) continue;
    if (all_finite(replicas.gradient(reduction.index).narrow(0, shards[s].offset, shards[s].size()))) continue;
    return program.parameters[size_t(shards[s].parameter)].spec.name;
  }
  return "";
}

void scale_gradients(const WorkerContext& context, const PreparedProgram& prepared, BatchInFlight& batch,
                     StepOutcome& outcome) {
  Replicas& replicas = context.replicas;
  const OptimizerConfig& optimizer = context.options.optimizer;
  replicas.await_sums();  // buckets are reduced in another order than the squares are added
  double squares = 0;
  for (BucketId id : prepared.trainable) squares += replicas.square_sum(id);
  outcome.gradient_squares = squares;
  outcome.updated_step = batch.input.step;
  if (context.options.gradient_norms) outcome.norms.squares += squares;
  if (batch.input.clip_norm > 0) {
    at::Tensor total = at::full({1}, squares, at::kDouble);
    context.world.all_reduce(total);
    const double norm = std::sqrt(total.item<double>());
    constexpr double kGuard = 1e-6;  // as torch.nn.utils.clip_grad_norm_
    batch.clip_scale = std::min(1.0, batch.input.clip_norm / (norm + kGuard));
  }
  if (!optimizer.is_layerwise()) return;
  const auto parameters = int64_t(prepared.program->parameters.size());
  static_assert(sizeof(SquareSums) == 2 * sizeof(double));
  at::Tensor totals = at::zeros({parameters, 2}, at::kDouble);
  const std::span sums(static_cast<SquareSums*>(totals.data_ptr()), size_t(parameters));
  for (BucketId id : prepared.trainable) replicas.measure(id, batch.clip_scale, sums);
  context.world.all_reduce(totals);
  batch.trust = trust_ratios(optimizer, *prepared.program, sums);
}

}  // namespace trireme
