#include "runtime/worker/gradients.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "runtime/layerwise.h"

namespace trireme {
namespace {

/// A sum is one pass without extra memory, and it is not finite if an element is not finite. Only if the sum is not
/// finite (it may have overflowed) are the elements checked.
bool all_finite(const at::Tensor& values) {
  return std::isfinite(values.sum().item<double>()) || values.isfinite().all().item<bool>();
}

}  // namespace

std::string not_finite_before(const Instruction& reduction, const Program& program, Replicas& replicas) {
  // A single holder continues to add to its whole gradient, so one check per batch is enough.
  const bool is_whole = program.optimizer_sharding < OptimizerSharding::zero2;
  if (!program.private_replicas || (is_whole && !reduction.last)) return "";
  const std::vector<ParameterShard>& shards = program.buckets[size_t(reduction.index)].shards;
  for (size_t s = 0; s < shards.size(); ++s) {
    if (!replicas.written(reduction.index, int(s))) continue;
    if (all_finite(replicas.gradient(reduction.index).narrow(0, shards[s].offset, shards[s].size()))) continue;
    return program.parameters[size_t(shards[s].parameter)].spec.name;
  }
  return "";
}

void scale_gradients(const WorkerContext& context, const PreparedProgram& prepared, BatchInFlight& batch,
                     GradientNorms& norms) {
  Replicas& replicas = context.replicas;
  const OptimizerConfig& optimizer = context.options.optimizer;
  replicas.await_sums();  // buckets are reduced in another order than the squares are added
  double squares = 0;
  for (BucketId id : prepared.trainable) squares += replicas.square_sum(id);
  if (context.options.gradient_norms) norms.squares += squares;
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
