// Internal to predict_memory: one rank's weights, gradients and optimizer state, as
// runtime/replicas/shared_replicas.cpp, whole_replica.cpp and zero.cpp hold them.
#pragma once

#include <vector>

#include "cost/memory_sizes.h"
#include "cost/memory_tally.h"

namespace trireme {

/// Elements of the largest shard of a bucket for which `rank`, a holder, draws initial values.
int64_t largest_drawn(const Program& program, BucketId bucket, int rank);

class ReplicaMemory {
 public:
  /// Counts what the rank holds before the first step: weights, gradients and optimizer state, after the initial values
  /// were drawn.
  ReplicaMemory(const RankSizes& sizes, MemoryTally& tally);

  /// The backward of a layer adds to a parameter's gradient.
  void write_gradient(const Op& op, size_t position);
  void prefetch(BucketId bucket);
  void gather(BucketId bucket);
  void release(BucketId bucket) { of(bucket).gathered.reset(); }
  void reduce(BucketId bucket, bool last);
  void update(BucketId bucket);

 private:
  /// What a rank holds for one bucket.
  struct Own {
    bool held = false;
    bool alone = false;  ///< it is the only holder
    bool contributes = false;
    bool frozen = false;
    int64_t part = 0;     ///< elements of its slice
    int64_t factors = 0;  ///< bytes of PowerSGD's temporary tensors
    std::vector<Held> always;
    Held arriving;  ///< other processes' slices of the weights, under zero3
    Held gathered;  ///< the whole weights, under zero3
    Held gradient;  ///< the whole gradient, under zero2 and zero3, from the first contribution to the reduction
    Held reduced;   ///< on a rank without a contribution, from the reduction to the update
  };

  const Program& program() const { return sizes_.all().program(); }
  const Bucket& bucket(BucketId id) const { return program().buckets[size_t(id)]; }
  Own& of(BucketId id) { return own_[size_t(id)]; }
  /// Bytes of an element of the worker's own summand.
  int64_t gradient_bytes(const Bucket& bucket) const;
  int64_t weight_bytes(const Bucket& bucket) const;  ///< of an element that layers read
  int64_t sum_in_whole(const Bucket& bucket) const;
  int64_t sum_in_parts(const Bucket& bucket, const Own& own, bool last) const;
  void receive_summands(int64_t bytes);
  bool divides(const Own& own, OptimizerSharding least) const {
    return !own.alone && program().optimizer_sharding >= least;
  }
  void keep(Own& own, MemoryCategory category, int64_t bytes);
  void hold_shared(BucketId id, Own& own);
  void hold_private(BucketId id, Own& own);
  void hold_factors(BucketId id, Own& own);
  void draw(BucketId id, Own& own);
  void make_state(BucketId id, Own& own);

  const RankSizes& sizes_;
  MemoryTally& tally_;
  const int64_t master_, compute_;  ///< bytes per element
  const bool one_at_a_time_;        ///< gradients travel beside the backward, one bucket at a time
  std::vector<Own> own_;            // by bucket
  /// What is reduced beside the backward, until the next reduction or its bucket's update.
  std::vector<Held> travels_;
  BucketId travels_of_ = -1;  ///< that bucket
  Held summands_;             ///< of other processes, in the sum that runs
};

}  // namespace trireme
