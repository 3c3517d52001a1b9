#include "update/synchronous.h"

#include "update/codec.h"
#include "update/registry.h"

namespace trireme {
namespace {

/// All replicas have the same copy of the weights.
class OneCopy final : public ReplicaPolicy {
 public:
  using ReplicaPolicy::ReplicaPolicy;
  bool after_step(const StepFacts&, ReplicaState&) override { return false; }
  void finish(ReplicaState&) override {}
  ModelValues values_for_evaluation(ReplicaState& state) override { return values_of(state); }
};

}  // namespace

std::unique_ptr<ReplicaPolicy> SynchronousPolicy::for_replica(Hub& hub) { return std::make_unique<OneCopy>(hub); }

bool is_synchronous(std::string_view policy) { return policy.substr(0, policy.find(',')) == kSynchronous.name; }

namespace {

std::unique_ptr<UpdatePolicy> read_synchronous(const ConfigTable& update, const RunFacts&) {
  SynchronousOptions options;
  options.shares_by_speed = update.get_choice("shares", "equal", {"equal", "speed"}) == "speed";
  refuse_compression(update, "it stands for a data axis, whose gradients the plan compresses",
                     "train with --plan \"data,compression=powersgd\" instead");
  return std::make_unique<SynchronousPolicy>(options);
}

}  // namespace

constinit const PolicyKind kSynchronous = {
    .name = "synchronous",
    .description = "a gradient of all workers in every step",
    .read = read_synchronous,
};

}  // namespace trireme
