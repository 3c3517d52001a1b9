// Which part of a batch each piece of its gradient is of: for norms of gradients of parts and of the whole.
#include <ATen/ATen.h>

#include <algorithm>

#include "runtime/optimizer.h"
#include "runtime/worker_state.h"

namespace trireme {

/// Samples of a micro-batch whose losses this worker has.
int64_t Worker::State::samples_here(const Prepared& prepared, const MicroBatch& batch) const {
  const Program& program = *prepared.program;
  const Value& losses = program.values[size_t(program.ops[size_t(program.loss)].output)];
  return losses.layout.box_of(rank, global_shape(losses.node, batch))[0].size();
}

/// Of what this worker has added up in the bucket so far, the sum of squares.
double Worker::State::squares_so_far(const Prepared& prepared, BucketId id) {
  const Bucket& bucket = prepared.program->buckets[size_t(id)];
  const at::Tensor flat = replicas->gradient(id);
  double squares = 0;
  for (size_t s = 0; s < bucket.shards.size(); ++s)
    if (replicas->written(id, int(s))) squares += sum_of_squares(flat.narrow(0, bucket.shards[s].offset, bucket.shards[s].size()));
  return squares;
}

/// `squares` of a piece's gradient, or of one bucket of it. Contributions are sums over samples divided by the global batch; a piece is
/// the mean over its own.
void Worker::State::count_piece(double squares, int64_t samples, bool is_new, const BatchInFlight& batch) {
  if (samples == 0) return;
  const double factor = double(batch.input.batch.samples) / double(samples);
  outcome.norms.piece_squares += squares * factor * factor;
  if (!is_new) return;
  outcome.norms.pieces += 1;
  outcome.norms.inverse_samples += 1 / double(samples);
}

void Worker::State::measure_pieces(const Prepared& prepared, const Instruction& i, BatchInFlight& batch) {
  const Program& program = *prepared.program;
  if (program.devices > 1) {
    if (i.code != OpCode::reduce_gradients) return;
    int64_t samples = 0;
    for (const MicroBatch& part : batch.micro_batches)
      if (i.micro_batch < 0 || part.index == i.micro_batch) samples += samples_here(prepared, part);
    count_piece(squares_so_far(prepared, i.index), samples, i.index == prepared.trainable.front(), batch);
    return;
  }
  if (i.code != OpCode::backward) return;
  if (batch.first_backward < 0) batch.first_backward = i.micro_batch;
  if (i.micro_batch == batch.first_backward || batch.piece_is_counted) return;
  // the second micro-batch is about to be added to the first
  batch.piece_is_counted = true;
  double squares = 0;
  for (BucketId bucket : prepared.trainable) squares += squares_so_far(prepared, bucket);
  count_piece(squares, samples_here(prepared, batch.micro_batches[size_t(batch.first_backward)]), true, batch);
}

}  // namespace trireme
