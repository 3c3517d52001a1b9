// The weights of a run as far as this process holds them.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "base/memory.h"
#include "program/program.h"
#include "runtime/precision.h"
#include "runtime/replicas/replicas.h"

namespace trireme {

/// One bucket's flat tensors where replicas share them. Version v of the weights lies in slot v mod Bucket::versions.
/// Which worker may touch what, when:
///  - slot v of `master` and `compute`: written by each holder in its own slice only (Bucket::slice_of), which it
///  announces
///    through `done`; read by all holders from the v-th round of `done` until their backward of the last batch that
///    uses it;
///  - `gradients[c]`: written by contributor c between `done` of the batch before and its `ready`; then read by all
///  holders until
///    `done`;
///  - `reduced`: written by each holder in its own slice during clip_gradients.
/// To exchange weights and averages each holder writes to its own slice of the newest slot, between barriers.
/// `ready` and `done` count announcements over all batches: holders * batches.
struct BucketStore {
  std::vector<at::Tensor> master;  ///< float32 (float64 under fp64); by slot, or one where `compute` is a narrower copy
  std::vector<at::Tensor> compute;    ///< by slot: bfloat16 copy, or `master` itself
  std::vector<at::Tensor> gradients;  ///< by position in Bucket::contributors; each allocated by its worker
  at::Tensor reduced;                 ///< only where the program keeps gradients
  std::atomic<int64_t> ready{0};
  std::atomic<int64_t> done{0};
};

class ParameterStore {
 public:
  /// With shared replicas: allocates; each holder is charged with the bytes of its slice. The store must be created
  /// outside any DeviceScope. With private replicas it only knows where the workers keep theirs. `first_device`: of
  /// rank 0; that of rank r is r further.
  ParameterStore(const Program& program, Precision precision, int first_device = 0);
  ParameterStore(const ParameterStore&) = delete;
  ParameterStore& operator=(const ParameterStore&) = delete;

  Precision precision() const { return precision_; }
  /// Shared replicas only.
  BucketStore& bucket(BucketId id) { return *buckets_[size_t(id)]; }

  /// `replicas` of a worker, from its construction to its end; null at the end. Any worker at any time, each for
  /// itself.
  void attach(int rank, Replicas* replicas) { replicas_[size_t(rank)] = replicas; }

  /// A whole bucket of the newest version, put together from what `part` takes of the attached workers' pieces (it
  /// gives none: an undefined tensor); undefined where they do not cover it. To be read: it may be a worker's own. Only
  /// while no step is running.
  using PartOfPiece = std::function<at::Tensor(const ReplicaPiece& piece)>;
  at::Tensor whole_bucket(BucketId bucket, const PartOfPiece& part) const;

  /// Full tensors of the newest version, assembled from what the attached workers hold; only while no step is running.
  /// An undefined gradient where the program keeps none or the parameter is frozen.
  at::Tensor full_parameter(int parameter) const;
  at::Tensor full_gradient(int parameter) const;
  /// Averaged weights (OptimizerConfig::ema); undefined where none are kept, before the first update, and of frozen
  /// parameters.
  at::Tensor full_average(int parameter) const;

 private:
  at::Tensor assemble(int parameter, const at::Tensor ReplicaPiece::*flat) const;
  void allocate();
  void charge_holders();

  /// What holders were charged with, given back at the end, also when the constructor fails half-way.
  struct Charge {
    int device;
    MemoryCategory category;
    int64_t bytes;
  };
  class Charges {
   public:
    Charges() = default;
    ~Charges();
    Charges(const Charges&) = delete;
    Charges& operator=(const Charges&) = delete;
    void add(const Charge& charge);  ///< Errors: MemoryLimitError

   private:
    std::vector<Charge> made_;
  };

  const Program& program_;
  Precision precision_;
  const int first_device_;
  Charges charges_;
  std::vector<std::unique_ptr<BucketStore>> buckets_;
  std::vector<Replicas*> replicas_;  // by rank
};

}  // namespace trireme
