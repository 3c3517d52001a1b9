// Synchronous training: a gradient of all workers in every step, with one copy of the weights for all.
//
// The plan itself sums the gradients (its data axis). There is one copy of the weights and nothing to agree on, so this
// policy does nothing. It gives a name to what the field calls synchronous data parallelism (Sergeev, Del Balso,
// "Horovod: fast and easy distributed deep learning in TensorFlow", 2018; Li et al., "PyTorch distributed: experiences
// on accelerating data parallel training", 2020) among the policies of a run on a modelled clock. In real time, the
// plan `data` does the same.
#pragma once

#include <memory>
#include <string_view>

#include "trireme/policy.h"

namespace trireme {

struct SynchronousOptions {
  /// a worker's share of every batch is proportional to its speed; otherwise shares are equal
  bool shares_by_speed = false;
};

class SynchronousPolicy final : public UpdatePolicy {
 public:
  explicit SynchronousPolicy(const SynchronousOptions& options) : options_(options) {}
  const SynchronousOptions& options() const { return options_; }
  std::string description() const override {
    return options_.shares_by_speed ? "synchronous,shares=speed" : "synchronous,shares=equal";
  }
  bool evaluates_together() const override { return true; }
  std::unique_ptr<ReplicaPolicy> for_replica(Hub& hub) override;

 private:
  const SynchronousOptions options_;
};

/// `policy` is a policy's description.
bool is_synchronous(std::string_view policy);

}  // namespace trireme
