// The weights and gradients of one worker, and how the workers that hold the same parameters reduce and update them.
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
#include "runtime/replicas/compression.h"
#include "trireme/model.h"

namespace trireme {

class ParameterStore;

/// A contiguous part of a flat bucket in one worker's memory. Tensors have range.size() elements. A tensor that the
/// worker does not hold here is undefined: `reduced` if the program keeps no gradients, `average` if there is none
/// (yet), `master` and `compute` if another piece holds them. `compute` is `master` itself if they have one dtype.
/// `state`: all state tensors of the optimizer, or none; with shared replicas it is set from the first update on.
struct ReplicaPiece {
  Range range;
  at::Tensor master, compute, reduced, average;
  std::vector<at::Tensor> state = {};
};

/// Costs of keeping replicas equal, over all steps so far, in addition to the communicator's counts.
struct ReplicaCounts {
  double wait_seconds = 0;  ///< blocked until other workers were ready
  /// Exchange that overlapped with computing; an estimate for the one-pass update of shared replicas.
  double hidden_seconds = 0;
  /// Exposed time within norms and update(): moving gradients and weights while computing nothing.
  double exchange_seconds = 0;
  int64_t bytes_sent = 0;
};

/// One reduction of a bucket's gradients that ran while the worker computed. Times are seconds of the steady clock;
/// steps and bytes are the worker's own.
struct GradientTransfer {
  BucketId bucket = -1;
  double begin = 0, end = 0;
  int64_t bytes = 0;
};

/// Belongs to one worker and is used by its thread. Exception: any thread may call pieces() and factors() while no step
/// is running.
/// Batches are counted from 0 over the whole run, in the order of their updates. Version v of the weights contains v
/// updates.
class Replicas {
 public:
  virtual ~Replicas() = default;

  /// Draws the initial values of this worker's share. All workers must call it; a barrier must follow.
  virtual void initialize(uint64_t seed) = 0;

  /// Replaces initialize for a run that other workers began. `updates` updates have been made. The caller writes the
  /// old workers' values to pieces(), which hold the optimizer's state from this call on, and to factors(), which begin
  /// as after initialize(seed). Versions count from 0 again.
  virtual void resume(uint64_t seed, int64_t updates) = 0;

  /// Makes the optimizer begin anew: its state is that before the first update, and the next update is its first one.
  /// `updates`: how many this object has made. Any thread may call it while no step is running.
  virtual void restart_optimizer(int64_t updates) = 0;

  // -- weights: flat, in the compute dtype

  /// Blocks until version `version` exists. A bucket stores its last Bucket::versions versions; older ones are
  /// overwritten.
  virtual void await_weights(BucketId bucket, int64_t version) = 0;
  /// Returns the whole bucket at that version. Call it after await_weights, under zero3 between gather and release.
  virtual const at::Tensor& weights(BucketId bucket, int64_t version) = 0;
  virtual void prefetch(BucketId) {}
  virtual void gather(BucketId) {}
  virtual void release(BucketId) {}

  // -- gradients: flat, in the master dtype

  /// Returns the tensor in which this worker accumulates its gradient of the next batch to be reduced; undefined if
  /// this worker does not contribute. Blocks until the reduction of the previous batch has read it. Valid until
  /// reduce().
  virtual at::Tensor gradient(BucketId bucket) = 0;
  /// True if the shard holds a contribution since the last reduce(). Otherwise its contents are undefined.
  bool& written(BucketId bucket, int shard) { return written_[size_t(bucket)][size_t(shard)]; }
  /// Executes OpCode::reduce_gradients. Resets `written` once the contribution has been taken.
  virtual void reduce(BucketId bucket, bool last) = 0;

  // -- tables that layers read by rows (embeddings)

  /// Requests that steps change only those rows of a shard [rows, ...] that the batch's gradient reaches, in time that
  /// does not grow with the table. Returns true if steps will do so: one worker alone updates the shard, and the
  /// optimizer does not change a weight with zero gradient.
  virtual bool track_rows(BucketId, int /*shard*/, int64_t /*rows*/) { return false; }
  /// Call it before adding to `rows` (integers of any shape) of a tracked shard's gradient. That gradient is zero in
  /// all rows to which nothing was added since the last update; callers must add to it and never overwrite it.
  virtual void touch_rows(BucketId, int /*shard*/, const at::Tensor& /*rows*/) {}

  /// For clipping: sums the gradient if necessary and returns the sum of squares over this worker's part. The parts of
  /// all workers cover every parameter exactly once.
  virtual double square_sum(BucketId bucket) = 0;
  /// For layer-wise optimizers, after square_sum and once before each update: adds the result of measure_slice over
  /// this worker's part to `sums`, by parameter of the program. `scale` multiplies the gradient.
  virtual void measure(BucketId bucket, double scale, std::span<SquareSums> sums) = 0;
  /// Executes OpCode::optimizer_step of the next batch. `scale` as above. `trust`: trust_ratios of a layer-wise
  /// optimizer.
  virtual void update(BucketId bucket, double learning_rate, double scale, std::span<const double> trust = {}) = 0;

  // -- averaged weights (OptimizerConfig::ema)

  /// Swaps the newest weights with their averages if there have been updates; weights() then returns averages. A second
  /// call swaps them back. All holders must call it together, for the same buckets in the same order, between barriers
  /// and after all updates have settled.
  virtual void exchange_average(BucketId bucket) = 0;

  // -- steps that are recorded once and replayed (runtime/graph/step_graph.h)

  /// Until the next call, updates take from `rates` what differs from step to step. Null: they compute it.
  void use_rates(const RecordedRates* rates) { rates_ = rates; }
  /// Counts one reduction and one update of the bucket that a replayed step has made. Shared replicas only.
  virtual void note_replayed(BucketId bucket);

  /// Blocks until all updates that this worker waits for are written everywhere it can read.
  virtual void settle() = 0;

  /// Returns what this worker holds of the newest version: whole buckets or slices.
  virtual std::vector<ReplicaPiece> pieces(BucketId bucket) = 0;
  /// Returns what PowerSGD keeps of this bucket: one entry for each shard that sends_factors, in order.
  virtual std::vector<FactorPiece> factors(BucketId bucket) {
    static_cast<void>(bucket);
    return {};
  }

  /// Blocks until all reductions that run while the worker computes have finished, in the order in which they were
  /// started.
  virtual void await_sums() {}
  /// The same for the sum of one bucket, which this worker holds.
  virtual void await_sum(BucketId bucket) { static_cast<void>(bucket); }
  /// True if a reduction has not finished. Call it in modelled time only.
  virtual bool sums_travel() const { return false; }
  /// Returns the error of a reduction that failed; null if none did.
  virtual std::exception_ptr failure() const { return nullptr; }

  const ReplicaCounts& counts() const { return counts_; }
  /// Returns the finished transfers that updates and norms have waited for since the last call.
  virtual std::vector<GradientTransfer> take_transfers() { return {}; }

 protected:
  explicit Replicas(const Program& program);
  std::vector<std::unique_ptr<bool[]>> written_;  // by bucket and shard
  ReplicaCounts counts_;
  const RecordedRates* rates_ = nullptr;
};

/// Workers of one process that share one copy of the weights; each updates a slice (program.private_replicas == false).
std::unique_ptr<Replicas> shared_replicas(int rank, const Program& program, ParameterStore& store, LocalWorld& world,
                                          const OptimizerConfig& optimizer);

/// One copy per worker, kept equal through `world`, a communicator over all ranks that must outlive the result. All
/// workers must construct theirs concurrently, because groups are formed. The program defines optimizer sharding and
/// compression.
std::unique_ptr<Replicas> private_replicas(int rank, const Program& program, Precision precision, Communicator& world,
                                           const OptimizerConfig& optimizer);

/// Fills the shards of `bucket` in a flat tensor of the master dtype with their initial values. Element i of the full
/// parameter depends only on (seed, name, i). `shards`: the shards to fill; empty: all.
void draw_initial_values(const Program& program, BucketId bucket, uint64_t seed, at::Tensor& flat,
                         const std::vector<int>& shards = {});

/// Returns the initial values of a whole parameter, in float32.
at::Tensor drawn_parameter(const ParameterSpec& spec, uint64_t seed);

/// Overwrites what the replicas of `rank` hold with full tensors, by parameter name. Parameters without a tensor do not
/// change. With shared replicas one worker writes each shard. Call it after initialize() of all workers, between
/// barriers.
void give_initial_values(const Program& program, int rank, const TensorMap& values, Replicas& replicas);

}  // namespace trireme
