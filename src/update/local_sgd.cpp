#include "update/local_sgd.h"

#include <ATen/ATen.h>

#include "update/cadence.h"
#include "update/statistics.h"

namespace trireme {
namespace {

class LocalSgdReplica final : public ReplicaPolicy {
 public:
  LocalSgdReplica(const LocalSgdOptions& options, Hub& hub)
      : options_(options), hub_(hub), cadence_(options.every, options.post_local_after) {}

  bool after_step(const StepFacts& facts, ReplicaState& state) override {
    samples_ += double(facts.samples);
    if (!cadence_.due_after(facts)) return false;
    agree(state);
    return hub_.replicas() > 1;
  }

  void finish(ReplicaState& state) override {
    bool pending;
    {
      Hub::Unmetered agreement(hub_);
      pending = hub_.total(cadence_.has_pending() ? 1 : 0) > 0;
    }
    if (pending) agree(state);
    cadence_.settle();
  }

  ModelValues values_for_evaluation(ReplicaState& state) override {
    Hub::Unmetered evaluation(hub_);
    ModelValues values = values_of(state);
    // all have agreed and nothing has changed since, or nobody has
    average(values.weights, weight());
    average_statistics(values.statistics, weight(), {}, hub_);
    return values;
  }

 private:
  std::optional<double> weight() const { return options_.weight_by_samples ? std::optional(samples_ > 0 ? samples_ : 1.0) : std::nullopt; }

  void average(std::span<at::Tensor> tensors, std::optional<double> weight) {
    if (weight) hub_.weighted_average(tensors, *weight);
    else hub_.average(tensors);
  }

  void agree(ReplicaState& state) {
    average(state.weights, weight());
    if (options_.average_statistics) average_statistics(state.statistics, weight(), {}, hub_);
    if (options_.moments == Moments::averaged)
      for (std::vector<at::Tensor>& moments : state.moments) average(moments, weight());
    if (options_.moments == Moments::reset) reset_moments(state);
    samples_ = 0;
  }

  const LocalSgdOptions options_;
  Hub& hub_;
  Cadence cadence_;
  double samples_ = 0;  ///< since the last average
};

class LocalSgd final : public UpdatePolicy {
 public:
  explicit LocalSgd(const LocalSgdOptions& options) : options_(options) {}
  bool evaluates_together() const override { return true; }
  std::unique_ptr<ReplicaPolicy> for_replica(Hub& hub) override { return std::make_unique<LocalSgdReplica>(options_, hub); }

 private:
  const LocalSgdOptions options_;
};

}  // namespace

void reset_moments(ReplicaState& state) {
  for (std::vector<at::Tensor>& moments : state.moments)
    for (at::Tensor& moment : moments) moment.zero_();
}

Moments read_moments(const ConfigTable& update, Moments fallback, bool may_average) {
  const std::vector<std::string> words = {"kept", "reset", "averaged"};  // in another order than the enumeration: the last may be missing
  const char* before = fallback == Moments::kept ? "kept" : fallback == Moments::reset ? "reset" : "averaged";
  const std::string word = update.get_choice("moments", before, may_average ? words : std::vector<std::string>{"kept", "reset"});
  return word == "kept" ? Moments::kept : word == "reset" ? Moments::reset : Moments::averaged;
}

std::unique_ptr<UpdatePolicy> local_sgd(const LocalSgdOptions& options) { return std::make_unique<LocalSgd>(options); }

std::unique_ptr<UpdatePolicy> read_local_sgd(const ConfigTable& update, const RunFacts&) {
  LocalSgdOptions options;
  options.every = read_whole_length(update, "every", options.every, 1);
  options.post_local_after = read_whole_length(update, "post_local_after", options.post_local_after, 0);
  options.weight_by_samples = update.get_choice("weights", "equal", {"equal", "samples"}) == "samples";
  options.moments = read_moments(update, options.moments, true);
  options.average_statistics = update.get_bool("average_statistics", options.average_statistics);
  return local_sgd(options);
}

}  // namespace trireme
