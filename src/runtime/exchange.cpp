// Worker: moving activations and gradients between layouts, reducing gradients, updating weights.
#include <ATen/ATen.h>

#include <cmath>

#include "base/memory.h"
#include "runtime/worker_state.h"

namespace trireme {

void Worker::State::move(Prepared& prepared, const Instruction& instruction) {
  const Program& program = *prepared.program;
  const Move& move = program.moves[size_t(instruction.index)];
  MicroBatch& batch = micro_batches[size_t(instruction.micro_batch)];
  const MoveEnds ends = ends_of(move, program, instruction.adjoint);
  const Shape shape = global_shape(program.values[size_t(move.from)].node, batch);
  // sends match receives by move, direction and micro-batch
  const int64_t tag = (int64_t(instruction.index) * 2 + instruction.adjoint) * program.micro_batches + instruction.micro_batch;

  at::Tensor local;
  if (ends.from.mesh.index_of(rank) >= 0) {
    auto& source = instruction.adjoint ? batch.gradients[size_t(move.to)] : batch.values[size_t(move.from)];
    local = source;
    if (instruction.adjoint) source = at::Tensor();
    if (!local.defined())  // nobody on this worker gave a gradient: it is zero
      local = at::zeros(shape_of(ends.from.box_of(rank, shape)), at::TensorOptions().dtype(compute_type(store.precision())));
  }
  at::Tensor result = redistributor.run(local, ends.from, ends.to, shape, tag);
  if (!instruction.adjoint && local.defined()) use_up(prepared, move.from, batch);
  if (!result.defined()) return;
  if (instruction.adjoint) add_gradient(prepared, move.from, result, batch);
  else batch.values[size_t(move.to)] = std::move(result);
}

void Worker::State::reduce(Prepared& prepared, BucketId id) {
  const Bucket& bucket = prepared.program->buckets[size_t(id)];
  for (size_t s = 0; s < bucket.shards.size(); ++s)
    if (gradient_flats[size_t(id)].defined() && !written[size_t(id)][s])
      ParameterStore::view_of(gradient_flats[size_t(id)], bucket.shards[s]).zero_();
  world.advance(store.bucket(id).ready);
}

void Worker::State::clip(Prepared& prepared) {
  double squares = 0;
  for (BucketId id = 0; id < BucketId(prepared.program->buckets.size()); ++id) {
    const Bucket& bucket = prepared.program->buckets[size_t(id)];
    const Range slice = bucket.slice_of(rank);
    if (slice.empty()) continue;
    BucketStore& shared = store.bucket(id);
    bucket_wait += world.wait_for(shared.ready, int64_t(bucket.holders.size()) * (steps_done + 1));
    at::Tensor sum = shared.reduced.narrow(0, slice.begin, slice.size());
    sum_gradients(shared.gradients, slice, sum);
    if (input->clip_norm > 0) squares += sum.square().sum(at::kDouble).item<double>();
  }
  if (input->clip_norm <= 0) return;
  at::Tensor total = at::full({1}, squares, at::kDouble);
  communicator->all_reduce(total);
  const double norm = std::sqrt(total.item<double>());
  constexpr double kGuard = 1e-6;  // as torch.nn.utils.clip_grad_norm_
  clip_scale = std::min(1.0, input->clip_norm / (norm + kGuard));
}

std::vector<at::Tensor>& Worker::State::optimizer_state(const Bucket& bucket, BucketId id) {
  auto& tensors = optimizer_states[size_t(id)];
  if (!tensors.empty()) return tensors;
  MemoryScope scope(MemoryCategory::optimizer);
  for (int i = 0; i < optimizer_state_count(options.optimizer); ++i)
    tensors.push_back(at::zeros({bucket.slice_of(rank).size()}, store.bucket(id).master.options()));
  return tensors;
}

void Worker::State::update(Prepared& prepared, BucketId id) {
  const Bucket& bucket = prepared.program->buckets[size_t(id)];
  BucketStore& shared = store.bucket(id);
  const auto holders = int64_t(bucket.holders.size());
  bucket_wait += world.wait_for(shared.ready, holders * (steps_done + 1));

  const auto begin = std::chrono::steady_clock::now();
  const bool reduced = prepared.program->keeps_gradients;
  SliceUpdate work;
  work.slice = bucket.slice_of(rank);
  work.gradients = reduced ? std::span<const at::Tensor>(&shared.reduced, 1) : std::span<const at::Tensor>(shared.gradients);
  work.gradient_offset = work.slice.begin;
  work.gradient_scale = clip_scale;
  work.master = &shared.master;
  work.compute = shared.compute.is_same(shared.master) ? nullptr : &shared.compute;
  work.state = optimizer_state(bucket, id);
  work.learning_rate = input->learning_rate;
  work.step = steps_done + 1;
  update_slice(options.optimizer, work);
  world.advance(shared.done);

  if (holders == 1) return;
  // of the pass's streams through memory, those that read other workers' gradients; every state and the weights are read and written
  const double remote = double(work.gradients.size()) - 1, own = 1 + 2 + 2 * double(work.state.size());
  const double pass = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  outcome.hidden_seconds += pass * remote / (remote + own);
  // a reduce-scatter of gradients and an all-gather of weights, by formula: each sends (n-1)/n of the bucket, twice
  const int64_t gradient_bytes = shared.gradients.empty() ? 0 : bucket.elements * shared.gradients[0].element_size();
  const int64_t weight_bytes = bucket.elements * shared.compute.element_size();
  const auto contributors = int64_t(bucket.contributors.size());
  outcome.bytes_sent += gradient_bytes * (contributors - 1) / contributors + weight_bytes * (holders - 1) / holders;
}

void Worker::State::synchronize_buffers(Prepared& prepared, OpId id) {
  OpBinding& binding = prepared.bindings[size_t(id)];
  for (at::Tensor& buffer : binding.buffers) binding.data_group->broadcast(buffer, 0);
}

void Worker::State::wait_for_weights(const Prepared& prepared, SegmentId segment) {
  for (BucketId id : prepared.program->segment_buckets[size_t(segment)]) {
    const auto holders = int64_t(prepared.program->buckets[size_t(id)].holders.size());
    const auto& ranks = prepared.program->buckets[size_t(id)].holders;
    if (std::binary_search(ranks.begin(), ranks.end(), rank))
      bucket_wait += world.wait_for(store.bucket(id).done, holders * steps_done);
  }
}

}  // namespace trireme
