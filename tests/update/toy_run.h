// Runs under a policy that a test can stop and resume.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "toy.h"
#include "update/hub/thread_world.h"
#include "update/hub/virtual_world.h"
#include "worlds.h"

namespace trireme {

/// A run of a policy on the toy problem, on the modelled clock or on threads.
struct ToyRun {
  static constexpr double learning_rate = 0.05;
  std::function<std::unique_ptr<UpdatePolicy>(int replicas)> make;
  std::vector<double> seconds = {1, 1.5, 0.75};
  std::vector<int64_t> steps = {12};
  double momentum = 0;
  at::ScalarType dtype = at::kDouble;
  bool threads = false;
  std::function<double(int64_t)> schedule = {};
  bool has_statistics = true;
  VirtualLinks links = {.replicas = {{.bandwidth = 64, .latency = 0.25}}, .server = {.bandwidth = 256}};

  int replicas() const { return int(seconds.size()); }

  struct Outcome {
    std::vector<ToyResult> results;
    std::vector<std::vector<Vector>> trace;  ///< by replica: its weights after each step
  };
  /// Runs the policy. Running statistics, if any, change with every step.
  Outcome train(UpdatePolicy& policy, ToyOptions options) const {
    const ToyProblem problem{.seed = 5, .samples = {12, 8, 9}};
    Outcome outcome;
    outcome.trace.resize(seconds.size());
    options.steps = steps;
    options.momentum = momentum;
    options.dtype = dtype;
    options.schedule = schedule;
    options.learning_rate = learning_rate;
    if (has_statistics)
      options.statistics = [&](int r) {
        return std::vector<RunningStatistics>{{at::full({3}, 0.5 * r, dtype), at::full({3}, 1.0 + r, dtype)}};
      };
    options.watch = [&](int r, int64_t step, ReplicaState& state, ReplicaPolicy&, Hub&) {
      outcome.trace[size_t(r)].push_back(to_vector(state.weights));
      if (step >= steps.back() || !has_statistics) return;  // called after finish
      state.statistics[0].mean.mul_(0.9).add_(0.1 * r + 0.01 * double(step));
      state.statistics[0].variance.mul_(0.8).add_(0.3 + 0.05 * double(step));
    };
    if (threads) {
      ThreadWorld world(replicas(), policy.server());
      outcome.results = train_toy(world, policy, problem, options);
    } else {
      const FixedTimes times(seconds);
      VirtualWorld world(replicas(), times, links, policy.server());
      outcome.results = train_toy(world, policy, problem, options);
    }
    return outcome;
  }
};

/// Makes the policy with these options, for any number of replicas.
template <class Policy, class Options>
auto with(Policy make, Options options) {
  return [=](int) { return make(options); };
}
template <class Policy, class Options>
auto with_replicas(Policy make, Options options) {
  return [=](int replicas) { return make(options, replicas); };
}

}  // namespace trireme
