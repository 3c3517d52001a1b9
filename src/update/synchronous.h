// Synchronous training: a gradient of all workers in every step, with one copy of the weights between them.
//
// The step itself is a plan's (its data axis): replicas that are one have nothing to agree about, and this policy does
// nothing. It is here so that what the field calls synchronous data parallelism (Sergeev, Del Balso, "Horovod: fast and
// easy distributed deep learning in TensorFlow", 2018; Li et al., "PyTorch distributed: experiences on accelerating
// data parallel training", 2020) has a name among the policies of a run on a modelled clock. In real time the plan
// `data` is it.
#pragma once

#include <memory>
#include <string_view>

#include "trireme/policy.h"

namespace trireme {

struct SynchronousOptions {
  bool shares_by_speed =
      false;  ///< a worker's share of every batch is in proportion to its speed; else all have equal ones
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

/// Of the text of a policy.
bool is_synchronous(std::string_view policy);

}  // namespace trireme
