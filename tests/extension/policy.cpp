// An update policy: "mean-every,steps=K". Replicas average their weights every K steps and at the end.
#include <trireme/config.h>
#include <trireme/policy.h>

namespace {

using namespace trireme;

class MeanReplica final : public ReplicaPolicy {
 public:
  MeanReplica(Hub& hub, int64_t steps) : ReplicaPolicy(hub), steps_(steps) {}

  bool after_step(const StepFacts&, ReplicaState& state) override {
    if (++since_mean_ < steps_) return false;
    average(state);
    return true;
  }

  void finish(ReplicaState& state) override {
    if (since_mean_ > 0) average(state);
  }

  ModelValues values_for_evaluation(ReplicaState& state) override {
    const Hub::Unmetered evaluation(hub_);
    ModelValues values = values_of(state);
    hub_.average(values.weights);
    for (RunningStatistics& statistics : values.statistics) {
      std::vector<at::Tensor> both{statistics.mean, statistics.variance};
      hub_.average(both);
    }
    return values;
  }

 protected:
  void fields(StateFields& fields, const ReplicaState&) override { fields.value("steps since mean", since_mean_); }

 private:
  void average(ReplicaState& state) {
    hub_.average(state.weights);
    for (RunningStatistics& statistics : state.statistics) {
      std::vector<at::Tensor> both{statistics.mean, statistics.variance};
      hub_.average(both);
    }
    since_mean_ = 0;
  }

  const int64_t steps_;
  int64_t since_mean_ = 0;
};

class MeanEvery final : public UpdatePolicy {
 public:
  explicit MeanEvery(int64_t steps) : steps_(steps) {}
  std::string description() const override { return "mean-every, steps=" + std::to_string(steps_); }
  bool evaluates_together() const override { return true; }
  std::unique_ptr<ReplicaPolicy> for_replica(Hub& hub) override { return std::make_unique<MeanReplica>(hub, steps_); }

 private:
  const int64_t steps_;
};

std::unique_ptr<UpdatePolicy> read_mean_every(const ConfigTable& update, const RunFacts&) {
  constexpr int64_t kUsualSteps = 8;
  return std::make_unique<MeanEvery>(update.get_int("steps", kUsualSteps, 1));
}

constexpr PolicyKind kMeanEvery = {
    .name = "mean-every",
    .description = "replicas average their weights every `steps` steps",
    .read = read_mean_every,
};

const bool kRegistered = register_update_policy(kMeanEvery);

}  // namespace
