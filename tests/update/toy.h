// A small problem for tests of update policies, and the training of replicas on it, step by step.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "trireme/config.h"
#include "trireme/policy.h"
#include "update/hub/hub_world.h"

namespace trireme {

using Vector = std::vector<double>;

constexpr double kRate = 0.05;               ///< learning rate of most tests
constexpr int64_t kMoreThanEnough = 100000;  ///< steps; clients stop when there are no more rounds

inline Length steps(int64_t n) { return {double(n), Length::Unit::steps}; }

/// Least squares; each replica has its own samples. The loss of sample (a, b) is (a w - b)^2 / 2. All numbers are drawn
/// from the seed.
struct ToyProblem {
  uint64_t seed = 1;
  int64_t dims = 11;
  std::vector<int64_t> samples = {12};      ///< by replica; the last one holds for all following replicas
  int64_t batch = 4;                        ///< the last batch of an epoch may be smaller
  std::vector<WeightPadding> padding = {};  ///< of toy_state: these of the weights are 0 and have no gradient

  bool is_padding(size_t weight) const {
    return std::any_of(padding.begin(), padding.end(), [&](const WeightPadding& run) {
      const int64_t at = int64_t(weight) - (run.bucket == 0 ? 0 : 4);
      return run.offset <= at && at < run.offset + run.elements;
    });
  }

  int64_t samples_of(int replica) const { return samples[std::min(size_t(replica), samples.size() - 1)]; }
  int64_t steps_per_epoch(int replica) const { return (samples_of(replica) + batch - 1) / batch; }
  int64_t first_of(int replica, int64_t step) const { return step % steps_per_epoch(replica) * batch; }
  int64_t samples_in(int replica, int64_t step) const {
    return std::min(batch, samples_of(replica) - first_of(replica, step));
  }

  Vector initial() const {
    Vector w(static_cast<size_t>(dims));
    for (int64_t d = 0; d < dims; ++d)
      if (!is_padding(size_t(d))) w[size_t(d)] = Philox(random_key(seed, "weights")).normal(uint64_t(d));
    return w;
  }

  Philox draw_of(int replica, int64_t sample) const {
    return Philox(random_key(seed, "sample " + std::to_string(replica) + " " + std::to_string(sample)));
  }
  /// The error a w - b of one sample.
  double error(int replica, int64_t sample, const Vector& w) const {
    const Philox draw = draw_of(replica, sample);
    double error = -draw.normal(0, 1);
    for (size_t d = 0; d < w.size(); ++d) error += draw.normal(d) * w[d];
    return error;
  }

  /// Adds the gradient of one sample's loss.
  void add_gradient(int replica, int64_t sample, const Vector& w, Vector& sum) const {
    const Philox draw = draw_of(replica, sample);
    const double error = this->error(replica, sample, w);
    for (size_t d = 0; d < w.size(); ++d)
      if (!is_padding(d)) sum[d] += draw.normal(d) * error;
  }

  /// The mean gradient over the batch of this step.
  Vector gradient(int replica, int64_t step, const Vector& w) const {
    Vector sum(w.size());
    const int64_t n = samples_in(replica, step);
    for (int64_t i = 0; i < n; ++i) add_gradient(replica, first_of(replica, step) + i, w, sum);
    for (double& g : sum) g /= double(n);
    return sum;
  }
};

inline Vector to_vector(const std::vector<at::Tensor>& tensors) {
  Vector all;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor values = tensor.to(at::kDouble).contiguous();
    all.insert(all.end(), values.data_ptr<double>(), values.data_ptr<double>() + values.numel());
  }
  return all;
}

inline void from_vector(const Vector& values, std::vector<at::Tensor>& tensors) {
  size_t at = 0;
  for (at::Tensor& tensor : tensors) {
    at::Tensor part = at::empty(tensor.sizes(), at::kDouble);
    std::copy_n(values.begin() + std::ptrdiff_t(at), part.numel(), part.data_ptr<double>());
    at += size_t(part.numel());
    tensor.copy_(part);
  }
}

/// Weights in buckets of 4, 0 and the rest of the elements.
inline ReplicaState toy_state(const Vector& weights, at::ScalarType dtype = at::kDouble) {
  ReplicaState state;
  for (const int64_t n : {int64_t{4}, int64_t{0}, int64_t(weights.size()) - 4}) {
    state.weights.push_back(at::empty({n}, dtype));
    state.moments.emplace_back();
  }
  from_vector(weights, state.weights);
  return state;
}

/// Four of the eleven weights stay local, and the running statistics if there are any.
inline LocalParts toy_local_parts(bool has_statistics) {
  LocalParts parts{.runs = {{0, 0, 2, false}, {0, 2, 2, true}, {2, 0, 5, false}, {2, 5, 2, true}}, .statistics = {}};
  if (has_statistics) parts.statistics = {true};
  return parts;
}
/// True for the weights that toy_local_parts keeps.
inline bool is_toy_local(size_t weight) { return weight == 2 || weight == 3 || weight == 9 || weight == 10; }

/// The state of a stopped run.
struct ToyCheckpoint {
  PolicyState policy;
  std::vector<PolicyState> parts;      ///< by replica
  std::vector<ReplicaState> replicas;  ///< copies
  std::vector<int64_t> steps;          ///< made by each replica
};

struct ToyOptions {
  std::vector<int64_t> steps = {12};  ///< by replica; the last one holds for all following replicas
  double learning_rate = 0.05;
  std::function<double(int64_t step)> schedule = {};  ///< in place of learning_rate
  double momentum = 0;
  at::ScalarType dtype = at::kDouble;
  /// Batch norm's statistics of each replica, set before the run.
  std::function<std::vector<RunningStatistics>(int replica)> statistics = {};
  /// Called on the replica's thread after the policy's after_step, and after its finish (then step = number of steps).
  std::function<void(int replica, int64_t step, ReplicaState& state, ReplicaPolicy& policy, Hub& hub)> watch = {};

  /// True if the replica stops before this step. `checkpoint` receives the states of all replicas. If it is null they
  /// only wait for each other and continue.
  std::function<bool(int replica, int64_t step)> stops = {};
  ToyCheckpoint* checkpoint = nullptr;
  std::vector<int> stop_together = {};  ///< replicas that wait for each other; empty: all
  const ToyCheckpoint* from = nullptr;  ///< null: the run begins anew
};

struct ToyResult {
  Vector weights;
  Vector gradients;  ///< sum of all computed gradients
  std::vector<Vector> moments;
  std::vector<RunningStatistics> statistics;
  HubCounts counts;
  double seconds = 0;  ///< end of the replica's last step, on its hub's clock
  int64_t steps = 0;
};

inline ReplicaState copy_of(const ReplicaState& state) {
  ReplicaState copy;
  for (const at::Tensor& w : state.weights) copy.weights.push_back(w.clone());
  for (const auto& moments : state.moments) {
    copy.moments.emplace_back();
    for (const at::Tensor& m : moments) copy.moments.back().push_back(m.clone());
  }
  for (const RunningStatistics& s : state.statistics) copy.statistics.push_back({s.mean.clone(), s.variance.clone()});
  return copy;
}

/// Stops the replica and saves its state. `steps`: number of its steps so far.
inline void toy_stop(Hub& hub, ReplicaPolicy& policy, const ReplicaState& state, int64_t steps,
                     ToyCheckpoint& checkpoint, ToyResult& result) {
  const auto r = size_t(hub.replica());
  result.counts = hub.counts();
  policy.release_waiting();
  checkpoint.parts[r] = policy.state(state);
  checkpoint.replicas[r] = copy_of(state);
  checkpoint.steps[r] = steps;
}

/// Trains one replica from begin to end.
inline ToyResult toy_replica(Hub& hub, UpdatePolicy& update, const ToyProblem& problem, const ToyOptions& options) {
  const int r = hub.replica();
  ReplicaState state = toy_state(problem.initial(), options.dtype);
  state.padding = problem.padding;
  if (options.momentum > 0)
    for (size_t b = 0; b < state.weights.size(); ++b) state.moments[b] = {at::zeros_like(state.weights[b])};
  if (options.statistics) state.statistics = options.statistics(r);
  auto policy = update.for_replica(hub);
  ToyResult result;
  if (options.from) {
    state = copy_of(options.from->replicas[size_t(r)]);
    state.padding = problem.padding;
    for (const WeightPadding& run : state.padding)  // a checkpoint keeps the weights by parameter, without padding
      state.weights[run.bucket].narrow(0, run.offset, run.elements).zero_();
    result.steps = options.from->steps[size_t(r)];
    policy->resume(options.from->parts[size_t(r)], state);
  } else {
    policy->begin(state);
  }
  const int64_t steps = options.steps[std::min(size_t(r), options.steps.size() - 1)];
  // True if the replica stops; its state is then in the checkpoint.
  const auto stops_before = [&](int64_t step) {
    if (!options.stops || !options.stops(r, step)) return false;
    if (step == steps) policy->settle(state);
    if (!options.checkpoint) {
      hub.barrier(options.stop_together);
      return false;
    }
    update.hold();
    toy_stop(hub, *policy, state, step, *options.checkpoint, result);
    return true;
  };
  for (int64_t k = result.steps; k < steps; ++k) {
    if (stops_before(k)) return result;
    const double rate = options.schedule ? options.schedule(k) : options.learning_rate;
    const StepFacts facts{.step = k,
                          .samples = problem.samples_in(r, k),
                          .learning_rate = rate,
                          .ends_epoch = (k + 1) % problem.steps_per_epoch(r) == 0};
    const ReplicaPolicy::Before before = policy->before_step(facts, state);
    if (before.held) {
      toy_stop(hub, *policy, state, k, *options.checkpoint, result);
      return result;
    }
    if (before.stop) break;
    hub.begin_step();
    Vector w = to_vector(state.weights);
    Vector g = problem.gradient(r, k, w);
    result.gradients.resize(g.size());
    for (size_t d = 0; d < g.size(); ++d) result.gradients[d] += g[d];
    if (options.momentum > 0) {
      std::vector<at::Tensor> buffers;
      for (auto& moments : state.moments) buffers.push_back(moments.front());
      Vector m = to_vector(buffers);
      for (size_t d = 0; d < g.size(); ++d) g[d] = m[d] = options.momentum * m[d] + g[d];
      from_vector(m, buffers);
    }
    for (size_t d = 0; d < w.size(); ++d) w[d] -= rate * g[d];
    from_vector(w, state.weights);
    hub.end_step();
    if (hub.is_lost()) {
      policy->leave(state);
      return result;
    }
    policy->after_step(facts, state);
    result.seconds = hub.now();
    ++result.steps;
    if (options.watch) options.watch(r, k, state, *policy, hub);
  }
  if (result.steps == steps && stops_before(steps)) return result;
  policy->finish(state);
  if (options.watch) options.watch(r, result.steps, state, *policy, hub);
  result.weights = to_vector(state.weights);
  for (const auto& moments : state.moments)
    if (!moments.empty()) result.moments.push_back(to_vector(moments));
  result.statistics = state.statistics;
  result.counts = hub.counts();
  return result;
}

/// Trains all replicas of a world; returns the results by replica.
inline std::vector<ToyResult> train_toy(HubWorld& world, UpdatePolicy& update, const ToyProblem& problem,
                                        const ToyOptions& options) {
  std::vector<ToyResult> results(static_cast<size_t>(world.replicas()));
  if (options.checkpoint) {
    options.checkpoint->parts.resize(results.size());
    options.checkpoint->replicas.resize(results.size());
    options.checkpoint->steps.resize(results.size());
  }
  if (options.from) update.resume(options.from->policy, 0);
  run_replicas(world, [&](Hub& hub) { results[size_t(hub.replica())] = toy_replica(hub, update, problem, options); });
  if (options.checkpoint) options.checkpoint->policy = update.state(world.hub(0).now());
  return results;
}

/// An event of a replica.
struct ToyEvent {
  double time;
  int replica;
  int64_t step;
};

/// `count` events of each replica, one every `seconds[replica]`, sorted by time and then by replica.
inline std::vector<ToyEvent> toy_events(const std::vector<double>& seconds, int64_t count) {
  std::vector<ToyEvent> events;
  for (int r = 0; r < int(seconds.size()); ++r)
    for (int64_t k = 0; k < count; ++k) events.push_back({double(k) * seconds[size_t(r)], r, k});
  std::sort(events.begin(), events.end(), [](const ToyEvent& a, const ToyEvent& b) {
    return std::tie(a.time, a.replica) < std::tie(b.time, b.replica);
  });
  return events;
}

/// Serial SGD on one replica's samples.
inline Vector serial_sgd(const ToyProblem& problem, int replica, int64_t steps, double learning_rate,
                         double momentum = 0) {
  Vector w = problem.initial(), m(w.size());
  for (int64_t k = 0; k < steps; ++k) {
    const Vector g = problem.gradient(replica, k, w);
    for (size_t d = 0; d < w.size(); ++d) {
      m[d] = momentum * m[d] + g[d];
      w[d] -= learning_rate * m[d];
    }
  }
  return w;
}

inline double largest_difference(const Vector& a, const Vector& b) {
  double largest = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    largest = std::max(largest, std::isnan(difference) ? INFINITY : difference);
  }
  return largest;
}

}  // namespace trireme
