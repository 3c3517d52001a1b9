#include "forecast/agreement/stand_in.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <string>

#include "base/touched_bytes.h"
#include "forecast/agreement_plan.h"
#include "program/compile.h"
#include "runtime/local_parts_of.h"
#include "runtime/optimizer.h"
#include "runtime/precision.h"

namespace trireme {
namespace {

constexpr int64_t kElements = 4096;  // of all weights together: enough for shards and fragments

/// Returns by bucket of the stand-in how many of its elements stay with each replica. What is exchanged keeps at least
/// one element where the model's bucket has any.
std::vector<int64_t> local_elements(const Program& program, const Model& model, const std::vector<std::string>& words,
                                    const std::string& where, const StandIn& stand_in) {
  std::vector<int64_t> local(stand_in.weights.size()), shared(stand_in.weights.size());
  if (words.empty()) return local;
  for (const LocalParts::Run& run : local_parts_of(program, model, words, where).runs)
    (run.is_local ? local : shared)[run.bucket] += run.elements;
  for (size_t b = 0; b < local.size(); ++b)
    local[b] = std::min(int64_t(std::llround(double(local[b]) / stand_in.scale)),
                        stand_in.weights[b] - (shared[b] > 0 ? 1 : 0));
  return local;
}

}  // namespace

StandIn::StandIn(const RunSpec& experiment, const Model& model, const Plan& plan)
    : dtype(master_type(experiment.precision)), moments(optimizer_state_count(experiment.optimizer)) {
  RunSpec one = experiment;
  one.private_replicas = false;
  const Program program = compile(model, plan.inner(), compile_options(one, true));
  std::vector<int64_t> elements;  // as ReplicaView::state() cuts them
  for (const Bucket& bucket : program.buckets) {
    if (bucket.contributors.empty()) continue;
    for (const int holder : bucket.holders)
      if (const int64_t size = bucket.slice_of(holder).size(); size > 0) elements.push_back(size);
  }
  int64_t all = 0;
  for (const int64_t count : elements) all += count;
  scale = std::max(1.0, double(all) / double(kElements));
  for (const int64_t count : elements)
    weights.push_back(std::max<int64_t>(1, int64_t(std::llround(double(count) / scale))));
  const std::vector<std::string> words =
      make_policy(plan.agreement, {}, facts_of(experiment, plan))->local_parameters();
  const std::string where = place_of_option(plan.agreement, {}, "local_parameters");
  local = local_elements(program, model, words, where, *this);
  const std::set<std::string> names = local_names(model, words, where);
  for (const BufferSpec& buffer : model.buffers())
    if (buffer.name.ends_with("running_mean"))
      (names.contains(buffer.name) ? local_statistics : statistics) += element_count(buffer.shape);
  statistics = int64_t(std::llround(double(statistics) / scale));
  local_statistics = int64_t(std::llround(double(local_statistics) / scale));
}

ReplicaState StandIn::state() const {
  const auto zeros = [&](int64_t n) { return at::zeros({n}, at::TensorOptions().dtype(dtype)); };
  ReplicaState state;
  for (const int64_t count : weights) {
    state.weights.push_back(zeros(count));
    std::vector<at::Tensor>& of_bucket = state.moments.emplace_back();
    for (int m = 0; m < moments; ++m) of_bucket.push_back(zeros(count));
  }
  for (const int64_t channels : {statistics, local_statistics})
    if (channels > 0) state.statistics.push_back({zeros(channels), zeros(channels)});
  return state;
}

void StandIn::prepare(UpdatePolicy& update) const {
  if (update.local_parameters().empty()) return;
  LocalParts parts;
  for (size_t b = 0; b < weights.size(); ++b) {
    const int64_t shared = weights[b] - local[b];
    if (shared > 0) parts.runs.push_back({b, 0, shared, false});
    if (local[b] > 0) parts.runs.push_back({b, shared, local[b], true});
  }
  if (statistics > 0) parts.statistics.push_back(false);
  if (local_statistics > 0) parts.statistics.push_back(true);
  update.set_local(parts);
}

StepsToPlay steps_to_play(const RunSpec& experiment, const Plan& plan, int64_t steps_per_epoch, int64_t steps) {
  return {.steps = steps,
          .steps_per_epoch = steps_per_epoch,
          .samples = std::max<int64_t>(1, experiment.batch / plan.replicas),
          .learning_rate = experiment.optimizer.learning_rate};
}

void play(Hub& hub, UpdatePolicy& update, const StandIn& stand_in, const StepsToPlay& steps,
          const std::function<void(double touched)>& on_step, int account) {
  const c10::InferenceMode inference;
  ReplicaState state = stand_in.state();
  const DeviceScope counted(account);
  const std::unique_ptr<ReplicaPolicy> policy = update.for_replica(hub);
  policy->begin(state);
  hub.barrier();
  TouchedBytes touched;
  for (int64_t step = 0; steps.steps == 0 || step < steps.steps; ++step) {
    const StepFacts facts{.step = step,
                          .samples = steps.samples,
                          .learning_rate = steps.learning_rate,
                          .ends_epoch = (step + 1) % steps.steps_per_epoch == 0};
    if (policy->before_step(facts, state).stop) break;
    hub.begin_step();
    hub.end_step();
    if (hub.is_lost()) return policy->leave(state);
    if (steps.on_trained) steps.on_trained();
    policy->after_step(facts, state);
    on_step(touched.take());
  }
  policy->finish(state);
}

}  // namespace trireme
