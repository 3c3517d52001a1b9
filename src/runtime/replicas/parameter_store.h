// The weights of a run that this process holds.
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

/// The flat tensors of one bucket if replicas share them. Version v of the weights lies in slot v mod Bucket::versions.
/// Access rules:
/// - Slot v of `master` and `compute`: each holder writes only its own slice (Bucket::slice_of) and announces it
///   through `done`. All holders read it from the v-th round of `done` until their backward of the last batch that uses
///   it.
/// - `gradients[c]`: contributor c writes it between `done` of the previous batch and its own `ready`. All holders then
///   read it until `done`.
/// - `reduced`: each holder writes its own slice during clip_gradients.
///
/// To exchange weights and averages, each holder writes its own slice of the newest slot, between barriers. `ready` and
/// `done` count announcements over all batches: holders * batches.
struct BucketStore {
  /// float32 (float64 under fp64); one per slot, or a single one if `compute` is a narrower copy.
  std::vector<at::Tensor> master;
  std::vector<at::Tensor> compute;    ///< by slot: bfloat16 copy, or `master` itself
  std::vector<at::Tensor> gradients;  ///< by position in Bucket::contributors; each is allocated by its worker
  at::Tensor reduced;                 ///< only if the program keeps gradients
  std::atomic<int64_t> ready{0};
  std::atomic<int64_t> done{0};
};

class ParameterStore {
 public:
  /// With shared replicas: allocates the tensors and charges each holder with the bytes of its slice. Must be
  /// constructed outside any DeviceScope. With private replicas: only records where the workers store theirs.
  /// `first_device`: the device of rank 0; the device of rank r is first_device + r.
  ParameterStore(const Program& program, Precision precision, int first_device = 0);
  ParameterStore(const ParameterStore&) = delete;
  ParameterStore& operator=(const ParameterStore&) = delete;

  Precision precision() const { return precision_; }
  /// Shared replicas only.
  BucketStore& bucket(BucketId id) { return *buckets_[size_t(id)]; }

  /// Registers the `replicas` of a worker, from their construction on; null at their end. Each worker may call it at
  /// any time for its own rank.
  void attach(int rank, Replicas* replicas) { replicas_[size_t(rank)] = replicas; }

  /// Returns a whole bucket of the newest version, assembled from what `part` returns for the attached workers' pieces
  /// (an undefined tensor: that piece has no such part). Undefined if the pieces do not cover the bucket. For reading
  /// only: it may be a worker's own memory. Call it only while no step is running.
  using PartOfPiece = std::function<at::Tensor(const ReplicaPiece& piece)>;
  at::Tensor whole_bucket(BucketId bucket, const PartOfPiece& part) const;

  /// Returns what PowerSGD keeps of the bucket on the worker `rank`. Call it only while no step is running.
  std::vector<FactorPiece> factors(BucketId bucket, int rank) const;

  /// Return full tensors of the newest version, on the CPU, assembled from what the attached workers hold. Call them
  /// only while no step is running. A gradient is undefined if the program keeps none or the parameter is frozen.
  at::Tensor full_parameter(int parameter) const;
  at::Tensor full_gradient(int parameter) const;
  /// Averaged weights (OptimizerConfig::ema). Undefined if none are stored, before the first update, and for frozen
  /// parameters.
  at::Tensor full_average(int parameter) const;

 private:
  at::Tensor assemble(int parameter, const at::Tensor ReplicaPiece::*flat) const;
  void allocate();
  void charge_holders();

  /// The bytes charged to the holders. They are given back at the end, also if the constructor throws.
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
