// One worker's weights and gradients, and how the workers that hold the same parameters agree on them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "comm/local/local_world.h"
#include "program/program.h"
#include "runtime/optimizer.h"
#include "runtime/precision.h"
#include "trireme/tensor_map.h"

namespace trireme {

class ParameterStore;

/// A stretch of a flat bucket in some worker's memory. Tensors have range.size() elements; those that the worker does
/// not hold here are undefined: `reduced` where the program keeps no gradients, `average` where there is none (yet),
/// `master` and `compute` where the piece says something else. `compute` is `master` itself where they have one dtype.
/// `state`: those of the optimizer, all of them or none; of shared replicas from the first update on.
struct ReplicaPiece {
  Range range;
  at::Tensor master, compute, reduced, average;
  std::vector<at::Tensor> state = {};
};

/// What agreeing took, over all steps so far, besides what the communicator counts.
struct ReplicaCounts {
  double wait_seconds = 0;  ///< blocked until other workers were ready
  double hidden_seconds =
      0;  ///< exchange that went on beside computing; an estimate where the one-pass update overlaps it
  double exchange_seconds = 0;  ///< within norms and update(): moving gradients and weights while computing nothing
  int64_t bytes_sent = 0;
};

/// The sum of a bucket's gradients while the worker computed: seconds of the steady clock, by the worker's own steps
/// and bytes.
struct GradientTransfer {
  BucketId bucket = -1;
  double begin = 0, end = 0;
  int64_t bytes = 0;
};

/// Belongs to one worker and is used by its thread, except pieces(), which any thread may call while no step is
/// running. Batches are counted from 0 over the whole run, in the order of their updates; version v of the weights has
/// v updates in it.
class Replicas {
 public:
  virtual ~Replicas() = default;

  /// Draws the initial values this worker is responsible for. All workers call it; a barrier must follow.
  virtual void initialize(uint64_t seed) = 0;

  /// In place of initialize, for a run that other workers began: `updates` have been made, and what they left is
  /// written to pieces(), which have the optimizer's state from here on. Versions count from 0 again.
  virtual void resume(int64_t updates) = 0;

  // -- weights: flat, in the compute dtype

  /// Waits until version `version` is there. Buckets keep Bucket::versions versions; older ones are gone.
  virtual void await_weights(BucketId bucket, int64_t version) = 0;
  /// The whole bucket at that version; after await_weights, under zero3 between gather and release.
  virtual const at::Tensor& weights(BucketId bucket, int64_t version) = 0;
  virtual void prefetch(BucketId) {}
  virtual void gather(BucketId) {}
  virtual void release(BucketId) {}

  // -- gradients: flat, in the master dtype

  /// Where this worker adds up its gradient of the batch that comes next to reduce(); undefined where it does not
  /// contribute. Waits until whoever sums the gradient of the batch before has read it. Valid until reduce().
  virtual at::Tensor gradient(BucketId bucket) = 0;
  /// Whether a shard of it holds a contribution since the last reduce (else its contents mean nothing).
  bool& written(BucketId bucket, int shard) { return written_[size_t(bucket)][size_t(shard)]; }
  /// OpCode::reduce_gradients. Resets `written` once the contribution has been taken.
  virtual void reduce(BucketId bucket, bool last) = 0;

  // -- tables that layers read by rows (embeddings)

  /// Asks that steps change no other rows of a shard, [rows, ...], than the batch's gradient reaches, and take no time
  /// that grows with the table. Whether they will: where one worker alone updates the shard, and the optimizer leaves
  /// what has no gradient as it is.
  virtual bool track_rows(BucketId, int /*shard*/, int64_t /*rows*/) { return false; }
  /// Before something is added to `rows` (integers of any shape) of a tracked shard's gradient, which is zero wherever
  /// nothing has been added since the last update: contributions are never written over it.
  virtual void touch_rows(BucketId, int /*shard*/, const at::Tensor& /*rows*/) {}

  /// For clipping: sums the gradient if need be and returns the sum of squares over this worker's part; the parts of
  /// all workers cover every parameter once.
  virtual double square_sum(BucketId bucket) = 0;
  /// For layer-wise optimizers, after square_sum and once before each update: adds what measure_slice gives over this
  /// worker's part, by parameter of the program. `scale` multiplies the gradient.
  virtual void measure(BucketId bucket, double scale, std::span<SquareSums> sums) = 0;
  /// OpCode::optimizer_step of the next batch. `scale` as above; `trust`: trust_ratios of a layer-wise optimizer.
  virtual void update(BucketId bucket, double learning_rate, double scale, std::span<const double> trust = {}) = 0;

  // -- averaged weights (OptimizerConfig::ema)

  /// Exchanges the newest weights with their averages where there have been updates: weights() then gives averages.
  /// Once more: back. All holders together, for the same buckets in the same order; between barriers and with all
  /// updates settled.
  virtual void exchange_average(BucketId bucket) = 0;

  /// Waits until all updates that this worker has asked for are written everywhere it can see.
  virtual void settle() = 0;

  /// What this worker holds of the newest version: whole buckets or slices.
  virtual std::vector<ReplicaPiece> pieces(BucketId bucket) = 0;

  /// Where sums go on beside computing: blocks until all that were asked for are there, in the order in which they
  /// were.
  virtual void await_sums() {}
  /// Why one of them failed; null: none did.
  virtual std::exception_ptr failure() const { return nullptr; }

  const ReplicaCounts& counts() const { return counts_; }
  /// What the updates and norms since the last call have waited for.
  virtual std::vector<GradientTransfer> take_transfers() { return {}; }

 protected:
  explicit Replicas(const Program& program);
  std::vector<std::unique_ptr<bool[]>> written_;  // by bucket and shard
  ReplicaCounts counts_;
};

/// Workers of one process that share one copy of the weights, each updating a slice (program.private_replicas ==
/// false).
std::unique_ptr<Replicas> shared_replicas(int rank, const Program& program, ParameterStore& store, LocalWorld& world,
                                          const OptimizerConfig& optimizer);

/// A copy per worker, kept equal through `world`, a communicator over all ranks that outlives the result. All workers
/// must construct theirs concurrently: groups are formed. Optimizer sharding and compression as the program says.
std::unique_ptr<Replicas> private_replicas(int rank, const Program& program, Precision precision, Communicator& world,
                                           const OptimizerConfig& optimizer);

/// Fills the shards of `bucket` in a flat tensor of the master dtype with their initial values: element i of the full
/// parameter depends on (seed, name, i) only. `shards`: which; empty: all.
void draw_initial_values(const Program& program, BucketId bucket, uint64_t seed, at::Tensor& flat,
                         const std::vector<int>& shards = {});

/// The same for a whole parameter, in float32.
at::Tensor drawn_parameter(const ParameterSpec& spec, uint64_t seed);

/// Writes full tensors, by parameter name, in place of what the replicas of `rank` hold; parameters without one stay.
/// Of shared replicas each shard is written by one worker. After initialize() of all workers, between barriers.
void give_initial_values(const Program& program, int rank, const TensorMap& values, Replicas& replicas);

}  // namespace trireme
