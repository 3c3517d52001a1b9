// Worker: moving activations and gradients between layouts, norms of gradients and of layers.
#include <ATen/ATen.h>

#include <cmath>

#include "runtime/layerwise.h"
#include "runtime/worker_state.h"

namespace trireme {

void Worker::State::move(Prepared& prepared, const Instruction& instruction, MicroBatch& batch) {
  const Program& program = *prepared.program;
  const Move& move = program.moves[size_t(instruction.index)];
  const MoveEnds ends = ends_of(move, program, instruction.adjoint);
  const Shape shape = global_shape(program.values[size_t(move.from)].node, batch);
  // sends match receives by move, direction and micro-batch; those of several batches arrive in order
  const int64_t tag = (int64_t(instruction.index) * 2 + instruction.adjoint) * program.micro_batches + instruction.micro_batch;

  at::Tensor local;
  if (ends.from.mesh.index_of(rank) >= 0) {
    auto& source = instruction.adjoint ? batch.gradients[size_t(move.to)] : batch.values[size_t(move.from)];
    local = source;
    if (instruction.adjoint) source = at::Tensor();
    if (!local.defined())  // nobody on this worker gave a gradient: it is zero
      local = at::zeros(shape_of(ends.from.box_of(rank, shape)), at::TensorOptions().dtype(compute_type(precision)));
  }
  at::Tensor result = redistributor.run(local, ends.from, ends.to, shape, tag);
  if (!instruction.adjoint && local.defined()) use_up(prepared, move.from, batch);
  if (!result.defined()) return;
  if (instruction.adjoint) add_gradient(prepared, move.from, result, batch);
  else batch.values[size_t(move.to)] = std::move(result);
}

void Worker::State::take_norms(Prepared& prepared, BatchInFlight& batch) {
  replicas->await_sums();  // buckets are not reduced in the order of their numbers, in which squares are added
  double squares = 0;
  for (BucketId id : prepared.trainable) squares += replicas->square_sum(id);
  if (options.gradient_norms) outcome.norms.squares += squares;
  if (batch.input.clip_norm > 0) {
    at::Tensor total = at::full({1}, squares, at::kDouble);
    communicator->all_reduce(total);
    const double norm = std::sqrt(total.item<double>());
    constexpr double kGuard = 1e-6;  // as torch.nn.utils.clip_grad_norm_
    batch.clip_scale = std::min(1.0, batch.input.clip_norm / (norm + kGuard));
  }
  if (!options.optimizer.is_layerwise()) return;
  const auto parameters = int64_t(prepared.program->parameters.size());
  static_assert(sizeof(SquareSums) == 2 * sizeof(double));
  at::Tensor totals = at::zeros({parameters, 2}, at::kDouble);
  const std::span sums(static_cast<SquareSums*>(totals.data_ptr()), size_t(parameters));
  for (BucketId id : prepared.trainable) replicas->measure(id, batch.clip_scale, sums);
  communicator->all_reduce(totals);
  batch.trust = trust_ratios(options.optimizer, *prepared.program, sums);
}

void Worker::State::synchronize_buffers(Prepared& prepared, OpId id) {
  OpBinding& binding = prepared.bindings[size_t(id)];
  for (at::Tensor& buffer : binding.buffers) binding.data_group->broadcast(buffer, 0);
}

void Worker::State::await_weights(const Prepared& prepared, SegmentId segment) {
  const Program& program = *prepared.program;
  for (OpId id : program.segments[size_t(segment)].ops) {
    const int64_t version = version_for(program.ops[size_t(id)]);
    for (const ParameterBinding& p : prepared.bindings[size_t(id)].parameters) replicas->await_weights(p.bucket, version);
  }
}

}  // namespace trireme
