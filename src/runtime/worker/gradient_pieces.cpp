#include "runtime/worker/gradient_pieces.h"

#include <ATen/ATen.h>

#include "runtime/optimizer.h"

namespace trireme {
namespace {

/// Adds a piece, or one of its buckets, with sum of squares `squares`. Contributions are sums over samples divided by
/// the global batch; a piece is the mean over its own samples.
void count_piece(double squares, int64_t samples, bool is_new, const BatchInFlight& batch, GradientNorms& norms) {
  if (samples == 0) return;
  const double factor = double(batch.input.batch.samples) / double(samples);
  norms.piece_squares += squares * factor * factor;
  if (!is_new) return;
  norms.pieces += 1;
  norms.inverse_samples += 1 / double(samples);
}

}  // namespace

/// Returns the number of samples of a micro-batch whose losses this worker has.
int64_t GradientPieces::samples_here(const Program& program, const BatchInFlight& batch, const MicroBatch& part) const {
  const Value& losses = program.values[size_t(program.ops[size_t(program.loss)].output)];
  return losses.layout.box_of(context_.rank, batch.global_shape(losses.node, part))[0].size();
}

/// Returns the sum of squares of what this worker has accumulated in the bucket so far.
double GradientPieces::squares_so_far(const Program& program, BucketId id) const {
  const Bucket& bucket = program.buckets[size_t(id)];
  const at::Tensor flat = context_.replicas.gradient(id);
  double squares = 0;
  for (size_t s = 0; s < bucket.shards.size(); ++s)
    if (context_.replicas.written(id, int(s)))
      squares += sum_of_squares(flat.narrow(0, bucket.shards[s].offset, bucket.shards[s].size()));
  return squares;
}

void GradientPieces::measure(const PreparedProgram& prepared, const Instruction& next, const BatchInFlight& batch,
                             GradientNorms& norms) {
  if (!context_.options.gradient_norms || !prepared.program->training) return;
  if (prepared.program->devices > 1) {
    if (next.code == OpCode::reduce_gradients) measure_contribution(prepared, next, batch, norms);
  } else if (next.code == OpCode::backward) {
    measure_first_micro_batch(prepared, next, batch, norms);
  }
}

void GradientPieces::measure_contribution(const PreparedProgram& prepared, const Instruction& reduction,
                                          const BatchInFlight& batch, GradientNorms& norms) const {
  const Program& program = *prepared.program;
  int64_t samples = 0;
  for (const MicroBatch& part : batch.micro_batches)
    if (reduction.micro_batch < 0 || part.index == reduction.micro_batch) samples += samples_here(program, batch, part);
  count_piece(squares_so_far(program, reduction.index), samples, reduction.index == prepared.trainable.front(), batch,
              norms);
}

void GradientPieces::measure_first_micro_batch(const PreparedProgram& prepared, const Instruction& backward,
                                               const BatchInFlight& batch, GradientNorms& norms) {
  if (batch.number != batch_) {
    batch_ = batch.number;
    first_backward_ = backward.micro_batch;
    is_counted_ = false;
  }
  if (backward.micro_batch == first_backward_ || is_counted_) return;
  // The second micro-batch is about to be added to the first.
  is_counted_ = true;
  double squares = 0;
  for (BucketId bucket : prepared.trainable) squares += squares_so_far(*prepared.program, bucket);
  count_piece(squares, samples_here(*prepared.program, batch, batch.micro_batches[size_t(first_backward_)]), true,
              batch, norms);
}

}  // namespace trireme
