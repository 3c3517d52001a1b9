// The weights of a run: one copy per process, shared by all workers that hold them.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <memory>
#include <vector>

#include "base/memory.h"
#include "program/program.h"
#include "runtime/precision.h"

namespace trireme {

/// One bucket's flat tensors. Which worker may touch what, when:
///  - `master`, `compute`: read by all holders between `done` of one step and `ready` of the next; then written by each holder
///    in its own slice only (Bucket::slice_of), which it announces through `done`;
///  - `gradients[c]`: written by contributor c between `done` and its `ready`; then read by all holders until `done`;
///  - `reduced`: written by each holder in its own slice during clip_gradients.
/// `ready` and `done` count announcements over all steps: holders * steps.
struct BucketStore {
  at::Tensor master;                  ///< float32 (float64 under fp64)
  at::Tensor compute;                 ///< bfloat16 copy, or `master` itself
  std::vector<at::Tensor> gradients;  ///< by position in Bucket::contributors; each allocated by its worker
  at::Tensor reduced;                 ///< only where the program keeps gradients
  std::atomic<int64_t> ready{0};
  std::atomic<int64_t> done{0};
};

class ParameterStore {
 public:
  /// Allocates; each holder is charged with the bytes of its slice. The store must be created outside any DeviceScope.
  ParameterStore(const Program& program, Precision precision);
  ParameterStore(const ParameterStore&) = delete;
  ParameterStore& operator=(const ParameterStore&) = delete;

  Precision precision() const { return precision_; }
  BucketStore& bucket(BucketId id) { return *buckets_[size_t(id)]; }

  /// Draws the initial values of the shards that `rank` is first holder of. All ranks, then a barrier.
  void initialize(int rank, uint64_t seed);

  /// A shard's view of a flat bucket tensor: its shape, channels_last strides for 4-D parameters.
  static at::Tensor view_of(const at::Tensor& flat, const ParameterShard& shard);

  /// Full tensors, assembled from the shards; only while no step is running. Null `reduced` gives an undefined tensor.
  at::Tensor full_parameter(int parameter) const;
  at::Tensor full_gradient(int parameter) const;
  /// Sets a parameter everywhere from a full tensor; only while no step is running.
  void set_parameter(int parameter, const at::Tensor& full);

 private:
  at::Tensor assemble(int parameter, const at::Tensor BucketStore::*flat) const;
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
  Charges charges_;
  std::vector<std::unique_ptr<BucketStore>> buckets_;
};

}  // namespace trireme
