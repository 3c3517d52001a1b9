// Internals of private replicas: one bucket in one worker's own memory, and how its holders keep it equal. Every tensor
// is allocated by the worker that owns it, so that memory accounting charges that worker. `whole_replica` is plain data
// parallelism (each holder updates everything). `zero_replica` divides state, gradients and weights over the holders.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <future>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "comm/collective_queue.h"
#include "program/program.h"
#include "runtime/optimizer.h"
#include "runtime/precision.h"
#include "runtime/replicas/replicas.h"
#include "trireme/communicator.h"

namespace trireme {

/// Arguments of a bucket's replica. References must outlive it.
struct ReplicaSetting {
  const Program& program;
  BucketId id;
  int rank;  ///< world rank of this worker, a holder
  Precision precision;
  Communicator* group;  ///< over the holders, where they divide the bucket over this worker's run of them (Bucket);
                        ///< null if this worker is the only one
  const OptimizerConfig& optimizer;
  CollectiveQueue*
      queue;  ///< over the same workers as `group`, if gradients are reduced while the worker computes; otherwise null
  ReplicaCounts& counts;  ///< counters of the worker
  /// Over the holders of the same slice, for the worker and for the queue's operations; null: there are no copies.
  Communicator *copies = nullptr, *copies_beside = nullptr;

  const Bucket& bucket() const { return program.buckets[size_t(id)]; }
  bool frozen() const { return bucket().contributors.empty() || !program.training; }
  bool contributes() const;
  bool narrow() const;  ///< computes in a narrower dtype than that of the master values
  at::TensorOptions master() const;
  at::TensorOptions compute() const;
  at::TensorOptions gradients() const;  ///< of the worker's own summand
};

/// Implements Replicas for one bucket; see there for the functions.
class BucketReplica {
 public:
  explicit BucketReplica(const ReplicaSetting& setting) : setting_(setting) {}
  virtual ~BucketReplica() = default;

  virtual void initialize(uint64_t seed) = 0;
  virtual void resume(uint64_t /*seed*/, int64_t updates) { updates_ = updates; }
  void restart_optimizer() {
    updates_ = 0;
    reset_optimizer_state(setting_.optimizer, state_);
  }
  virtual const at::Tensor& weights(int64_t version) = 0;
  virtual void prefetch() {}
  virtual void gather() {}
  virtual void release() {}
  virtual at::Tensor gradient() = 0;
  /// `written`: by shard. All are false after the call, unless the contribution stays in place to accumulate more.
  virtual void reduce(bool* written, bool last) = 0;
  /// Blocks until the last reduce() has finished, if it runs while the worker computes.
  virtual void await_sum() {}
  virtual double square_sum() = 0;
  virtual void measure(double scale, std::span<SquareSums> sums) = 0;
  virtual void update(double learning_rate, double scale, std::span<const double> trust) = 0;
  virtual void exchange_average() = 0;
  virtual std::vector<ReplicaPiece> pieces() = 0;
  virtual std::vector<FactorPiece> factors() { return {}; }

  /// Returns the transfers that ran while the worker computed and have finished since the last call.
  std::vector<GradientTransfer> take_transfers() { return std::exchange(transfers_, {}); }

 protected:
  void allocate_state(int64_t elements);
  /// Makes the next optimizer step on tensors of one size, which begin at element `begin` of the bucket. `compute`: as
  /// in SliceUpdate, or null.
  void step(int64_t begin, at::Tensor master, at::Tensor* compute, const at::Tensor& gradient, double learning_rate,
            double scale, std::span<const double> trust);
  /// Adds to `sums` what a layer-wise optimizer needs for the next step, over `part` of such tensors.
  void measure_part_of(int64_t begin, Range part, at::Tensor master, const at::Tensor& gradient, double scale,
                       std::span<SquareSums> sums);
  /// Returns a summed gradient in the dtype of the master values: `sum` itself, or a copy if gradients are stored in
  /// bfloat16.
  at::Tensor in_master(const at::Tensor& sum) const;
  /// False for frozen values, which have no state: their average is the value itself.
  bool has_average() const { return setting_.optimizer.ema > 0 && updates_ > 0 && !state_.empty(); }
  /// Blocks until an operation of the queue has finished. Assumes that the operation waits for other workers at its
  /// beginning.
  void await(std::future<OperationDone>& operation);
  /// Zeroes the shards that no layer has written since the last reduction, and the gaps between shards.
  void clear_unwritten(const bool* written, at::Tensor& flat) const;
  void reset(bool* written) const;

  const ReplicaSetting setting_;
  std::vector<at::Tensor> state_;
  int64_t updates_ = 0;
  std::vector<GradientTransfer> transfers_;
};

/// The whole weights of a bucket in its newest versions, as a ring: version v is in slot v modulo the ring's length. If
/// master and compute values have the same dtype, the newest slot holds both. Otherwise the master values of the range
/// `owned` are stored separately.
class WeightRing {
 public:
  WeightRing(const ReplicaSetting& setting, Range owned);
  void initialize(const ReplicaSetting& setting, uint64_t seed);

  const at::Tensor& version(int64_t version) const;
  at::Tensor& newest() { return slots_[size_t(newest_) % slots_.size()]; }
  /// Master values of the newest version, of `owned` only.
  at::Tensor master();
  /// Begins the next version. Copies the owned elements from the previous version.
  void advance();
  bool narrow() const { return master_.defined(); }

 private:
  Range owned_;
  at::Tensor master_;  ///< owned.size() elements; undefined if master and compute have one dtype
  std::vector<at::Tensor> slots_;
  int64_t newest_ = 0;
};

std::unique_ptr<BucketReplica> whole_replica(const ReplicaSetting& setting);
std::unique_ptr<BucketReplica> zero_replica(const ReplicaSetting& setting);

}  // namespace trireme
