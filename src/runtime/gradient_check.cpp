// Worker: whether its own gradient is finite, before others add theirs and nobody knows any more whose was not.
#include <ATen/ATen.h>

#include <cmath>

#include "runtime/worker_state.h"

namespace trireme {
namespace {

/// A sum is one pass without other memory, and not finite wherever an element is not; only one that has grown too large is looked at twice.
bool all_finite(const at::Tensor& values) {
  return std::isfinite(values.sum().item<double>()) || values.isfinite().all().item<bool>();
}

}  // namespace

void Worker::State::check_gradient(const Program& program, const Instruction& reduction) {
  // a single holder goes on adding to its whole gradient: once per batch is enough
  const bool is_whole = program.optimizer_sharding < OptimizerSharding::zero2;
  if (!program.private_replicas || !outcome.not_finite.empty() || (is_whole && !reduction.last)) return;
  const std::vector<ParameterShard>& shards = program.buckets[size_t(reduction.index)].shards;
  for (size_t s = 0; s < shards.size(); ++s) {
    if (!replicas->written(reduction.index, int(s))) continue;
    if (all_finite(replicas->gradient(reduction.index).narrow(0, shards[s].offset, shards[s].size()))) continue;
    outcome.not_finite = program.parameters[size_t(shards[s].parameter)].spec.name;
    outcome.not_finite_at = communicator->now();
    return;
  }
}

}  // namespace trireme
