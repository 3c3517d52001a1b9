#include "train/replica_run.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "base/error.h"
#include "base/memory.h"
#include "plan/named.h"
#include "runtime/crew.h"
#include "train/final_metrics.h"
#include "train/metrics.h"
#include "train/modelled_source.h"
#include "train/modelled_times.h"
#include "train/read_emulation.h"
#include "train/replica_view.h"
#include "train/trainer.h"
#include "update/federated.h"
#include "update/synchronous.h"
#include "update/thread_hub.h"
#include "update/virtual_hub.h"

namespace trireme {
namespace {

bool is_plain_sgd(const OptimizerConfig& optimizer) {
  return optimizer.kind == OptimizerConfig::Kind::sgd && optimizer.momentum == 0;
}

RunFacts facts_of(const Experiment& experiment, int workers) {
  return {std::max(1, workers / experiment.replicas.devices), experiment.seed, is_plain_sgd(experiment.optimizer)};
}

Plan plan_of_replica(const Experiment& experiment, const Model& model, int workers) {
  const ReplicaSpec& spec = experiment.replicas;
  if (workers % spec.devices != 0)
    fail_user({spec.where, fmt::format("plan_devices = {}", spec.devices), fmt::format("{} workers are no whole number of replicas", workers),
               "use a multiple"});
  Experiment one = experiment;
  one.batch = std::max<int64_t>(1, experiment.batch / (workers / spec.devices));
  Plan plan = make_plan(spec.plan, one, model, spec.devices);
  if (plan.devices != spec.devices && !(spec.plan == "single"))
    fail_user({spec.where, fmt::format("plan = \"{}\"", spec.plan), fmt::format("is for {} workers", plan.devices),
               fmt::format("write plan_devices = {}", plan.devices)});
  validate(plan, model, one.batch, "the replicas' plan");
  return plan;
}

/// The policy's result is the raw weights: there is one answer to who averages them.
void check_replicas(const Experiment& experiment) {
  const auto refuse = [&](const char* what, const char* why) { fail_user({experiment.file.string(), what, why, "leave it out"}); };
  if (experiment.optimizer.ema > 0) refuse("optimizer.ema", "update policies do not average weights over time");
  if (experiment.adapt) refuse("adapt", "changes the plan of synchronous training only");
  if (!experiment.memory_changes.empty()) refuse("cluster.memory.change", "memory changes during synchronous training only");
  if (experiment.links && !experiment.links->changes.empty()) refuse("cluster.link.change", "links change during synchronous training only");
  if (experiment.replicas.clock && experiment.links) refuse("cluster.link", "on the modelled clock links are those of [update.virtual]");
  if (experiment.noise_scale) refuse("noise_scale", "is estimated from synchronous training only");
  if (experiment.private_replicas && !experiment.links) refuse("replicas = \"private\"", "the workers of a replica share one copy of its weights");
}

CompileOptions options_for(const Experiment& experiment, bool training) {
  CompileOptions options = compile_options(experiment, training);
  options.private_replicas = false;  // links lie between replicas
  return options;
}

/// The workers of synchronous training: a data axis, with shares by speed where the policy says so.
Plan plan_of_workers(const Experiment& experiment, const Model& model, const SynchronousOptions& options, int workers) {
  const ReplicaSpec& spec = experiment.replicas;
  if (!spec.clock)
    fail_user({"strategy synchronous", "without [update.virtual]", "in real time it is the plan data", "use data, or add [update.virtual]"});
  if (spec.plan != "single" || spec.devices != 1)
    fail_user({spec.where, fmt::format("plan = \"{}\", plan_devices = {}", spec.plan, spec.devices),
               "synchronous averages the gradients of single devices", "leave them out"});
  if (options.shares_by_speed && spec.shares != SampleShares::batches)
    fail_user({spec.where, fmt::format("shares = \"{}\"", name_of(spec.shares)),
               "workers with samples of their own take equal shares of a batch", "leave out synchronous's shares=speed"});
  Cluster cluster = Cluster::uniform(workers);
  if (options.shares_by_speed) {
    const int64_t equal = std::max<int64_t>(1, experiment.batch / workers);
    const Plan single = named_plan("single", model, Cluster::uniform(1), equal, {});
    const SecondsBySamples seconds = seconds_by_samples(experiment, model, single, workers);
    double least = seconds(0, equal);
    for (int d = 1; d < workers; ++d) least = std::min(least, seconds(d, equal));
    for (int d = 0; d < workers; ++d) cluster.devices[size_t(d)].speed = least / seconds(d, equal);
  }
  Plan plan = named_plan("data", model, cluster, experiment.batch, {});
  validate(plan, model, experiment.batch, "strategy synchronous");
  return plan;
}

/// Of replicas: each fails with its workers.
VirtualFailures failures_of(const ReplicaSpec& spec, const UpdatePolicy& update) {
  std::vector<Failure> failures = spec.clock->failures;
  for (Failure& failure : failures) failure.replica /= spec.devices;
  return {Failures(std::move(failures)), update.outlives_replicas()};
}

/// A worker's share of the batch of all.
int64_t share_of_worker(const Plan& plan, int64_t samples, int worker) {
  return (plan.speeds.empty() ? share_of(samples, plan.devices, worker) : share_of(samples, plan.speeds, worker)).size();
}

/// The same batch, read at once; `inputs` becomes all of its samples.
Batch read_now(const Batch& batch, std::vector<at::Tensor>& inputs) {
  inputs = batch.load({0, batch.samples});
  const auto load = [inputs](Range range) {
    std::vector<at::Tensor> parts;
    for (const at::Tensor& input : inputs) parts.push_back(input.narrow(0, range.begin, range.size()));
    return parts;
  };
  return {batch.samples, load, batch.model};
}

/// With the batch of all replicas together.
Experiment whole_experiment(Experiment experiment, int workers) {
  if (experiment.replicas.batch_per_replica) experiment.batch *= std::max(1, workers / experiment.replicas.devices);
  return experiment;
}

}  // namespace

/// What the workers of one replica share.
struct Replica {
  Replica(const Program& training, const Model& model, Precision precision, int number, int devices)
      : first_device(number * devices), world(devices), store(training, precision, first_device), view(training, model),
        losses(size_t(devices)) {}

  const int first_device;
  LocalWorld world;
  ParameterStore store;
  ReplicaView view;
  ReplicaState state;                     ///< the leader's
  std::unique_ptr<ReplicaPolicy> policy;  ///< the leader's
  std::vector<double> losses;             ///< of the step, by rank
  int64_t samples = 0;                    ///< of the leader's steps
  double began = 0;                       ///< on the hub's clock: the leader's first step; times of the run count from there
  bool goes_on = true;                    ///< written by the leader between two barriers, as the next
  Batch batch;                            ///< of the step
};

ReplicaRun::ReplicaRun(const Experiment& experiment, const Model& model, const TaskData& data, const std::string& strategy, int workers)
    : experiment_(whole_experiment(experiment, workers)), model_(model), data_(data),
      update_((check_replicas(experiment_), make_policy(strategy, experiment.replicas, facts_of(experiment, workers)))),
      synchronous_(dynamic_cast<const SynchronousPolicy*>(update_.get())),
      plan_(synchronous_ ? plan_of_workers(experiment_, model, synchronous_->options(), workers) : plan_of_replica(experiment_, model, workers)),
      replicas_(synchronous_ ? 1 : workers / experiment.replicas.devices), training_(compile(model, plan_, options_for(experiment, true))),
      evaluation_(compile(model, plan_, options_for(experiment, false))),
      batches_(experiment_, data, synchronous_ ? workers : replicas_, update_->evaluates_together()) {
  check_emulation(experiment_, workers);
  check_memory_is_shared(strategy);
  if (workers > kMaxDevices)
    fail_user({fmt::format("{} workers", workers), "are too many", fmt::format("at most {} can work in one process", kMaxDevices), "use fewer"});
  if (auto* federated = dynamic_cast<FederatedPolicy*>(update_.get())) {
    federated->on_round = [this](const RoundRecord& record, const ModelValues& values) {
      std::unique_lock lock(mutex_);
      if (samples_ < next_evaluation_) return;
      const int64_t samples = samples_;
      while (next_evaluation_ <= samples) next_evaluation_ += evaluate_every_;
      lock.unlock();
      keep(samples, record.seconds - began_, values_of({.weights = values.weights, .moments = {}, .statistics = values.statistics}));  // copies
    };
  } else {
    steps_ = steps_of_replica(0);
  }
  const Length every = experiment.evaluate_every;
  evaluate_every_ = std::max<int64_t>(1, every.unit == Length::Unit::epochs ? int64_t(every.count * double(batches_.samples_per_epoch()))
                                                                          : int64_t(every.count) * experiment_.batch);
  next_evaluation_ = evaluate_every_;
  if (is_modelled()) {
    begin_modelled_time(workers);
  } else {
    const auto links = experiment.links ? std::make_shared<EmulatedLinks>(replicas_ + 1, *experiment.links) : nullptr;
    world_ = std::make_unique<ThreadWorld>(replicas_, update_->server(), links);
  }
}

ReplicaRun::~ReplicaRun() = default;

void ReplicaRun::begin_modelled_time(int workers) {
  const ReplicaSpec& spec = experiment_.replicas;
  if (!synchronous_) {
    ComputeTimes times(experiment_, seconds_by_samples(experiment_, model_, plan_, replicas_));
    times_ = std::make_unique<StepsBySamples>(std::move(times), batches_);
    world_ = std::make_unique<VirtualWorld>(replicas_, *times_, modelled_links(experiment_, replicas_, plan_.devices), update_->server(),
                                            failures_of(spec, *update_));
    return;
  }
  const Plan single = named_plan("single", model_, Cluster::uniform(1), std::max<int64_t>(1, experiment_.batch / workers), {});
  const auto samples = [this](int worker, int64_t step) { return share_of_worker(plan_, batches_.samples_together(step), worker); };
  ComputeTimes times(experiment_, seconds_by_samples(experiment_, model_, single, workers));
  times_ = std::make_unique<SynchronousSteps>(std::move(times), training_, samples, modelled_links(experiment_, workers, 1).replicas,
                                              int64_t(c10::elementSize(master_type(experiment_.precision))), spec.clock->failures);
  world_ = std::make_unique<VirtualWorld>(1, *times_);
}

/// Replicas that write to each other's memory have no links between them.
void ReplicaRun::check_memory_is_shared(const std::string& strategy) const {
  if (!update_->shares_memory()) return;
  const auto refuse = [&](const char* key) {
    fail_user({experiment_.file.string(), key, fmt::format("replicas under {} write to one memory: nothing goes over links", strategy),
               "leave it out, or take another policy"});
  };
  if (experiment_.links) refuse("cluster.link");
  const std::optional<ModelledClock>& clock = experiment_.replicas.clock;
  const auto is_slow = [](const LinkSpeed& link) { return link.bandwidth > 0 || link.latency > 0; };
  if (clock && is_slow(clock->link)) refuse("update.virtual.link");
  if (clock && clock->server_link && is_slow(*clock->server_link)) refuse("update.virtual.server_link");
}

ReplicaState ReplicaRun::state_of(Replica& replica) const {
  ReplicaState state = replica.view.state();
  if (!update_->takes_rows()) state.tables.clear();
  return state;
}

int64_t ReplicaRun::steps_of_replica(int replica) const { return steps_of(experiment_.length, batches_.steps_per_epoch(replica)); }

/// Where the policy decides how long the run is, the schedule ends with the experiment's length, and its last rate goes on.
double ReplicaRun::rate_at(int replica, int64_t step) const {
  const int64_t total = steps_of_replica(replica);
  return learning_rate_at(experiment_, std::min(step, total - 1), total, batches_.steps_per_epoch(replica));
}

void ReplicaRun::keep(int64_t samples, double seconds, ModelValues values) {
  std::lock_guard lock(mutex_);
  kept_.push_back({samples, seconds, std::move(values)});
}

/// Of the steps so far; all replicas ask together.
int64_t ReplicaRun::samples_of_all(Hub& hub, const Replica& replica) {
  Hub::Unmetered quiet(hub);
  return int64_t(hub.total(double(replica.samples)));
}

void ReplicaRun::keep_if_due(Hub& hub, Replica& replica, int64_t step) {
  if (steps_ == 0) return;  // rounds are kept
  if (update_->evaluates_together()) {
    const int64_t every = steps_of(experiment_.evaluate_every, batches_.steps_per_epoch(hub.replica()));
    if ((step + 1) % every != 0 || step + 1 == steps_of_replica(hub.replica())) return;
    ModelValues values = replica.policy->values_for_evaluation(replica.state);
    const int64_t samples = samples_of_all(hub, replica);
    if (hub.replica() != 0) return;
    return keep(samples, hub.now() - replica.began, std::move(values));
  }
  int64_t samples = 0;
  {
    std::lock_guard lock(mutex_);
    if (samples_ < next_evaluation_) return;
    samples = samples_;
    while (next_evaluation_ <= samples) next_evaluation_ += evaluate_every_;
  }
  const double seconds = hub.now() - replica.began;
  keep(samples, seconds, replica.policy->values_for_evaluation(replica.state));
}

/// The leader's part before a step. Whether there is one.
bool ReplicaRun::lead_before(Hub& hub, Replica& replica, StepFacts& facts) {
  const int r = hub.replica();
  if (steps_ > 0 && facts.step == steps_of_replica(r)) return false;
  facts.samples = synchronous_ ? batches_.samples_together(facts.step) : batches_.samples_in(r, facts.step);
  facts.learning_rate = rate_at(r, facts.step);
  facts.ends_epoch = (facts.step + 1) % batches_.steps_per_epoch(r) == 0;
  if (!replica.state.tables.empty()) {
    std::vector<at::Tensor> inputs;
    replica.batch = read_now(batch_from(batches_.training(r, facts.step)), inputs);
    facts.rows = replica.view.rows_in(inputs);
  }
  const ReplicaPolicy::Before before = replica.policy->before_step(facts, replica.state);
  if (before.wrote) replica.view.renew();
  if (before.stop) return false;
  if (replica.state.tables.empty()) replica.batch = batch_from(synchronous_ ? batches_.together(facts.step) : batches_.training(r, facts.step));
  return true;
}

void ReplicaRun::lead_after(Hub& hub, Replica& replica, const StepFacts& facts, double begin, double loss_sum) {
  {
    std::lock_guard lock(mutex_);
    samples_ += facts.samples;
    ended_.push_back({hub.replica(), facts.step, facts.samples, loss_sum, begin, hub.now() - replica.began});
  }
  replica.samples += facts.samples;
  changed_.notify_all();
  if (replica.policy->after_step(facts, replica.state)) replica.view.renew();
  keep_if_due(hub, replica, facts.step);
}

void ReplicaRun::train_replica(Hub& hub, int rank, Replica& replica) {
  c10::InferenceMode inference;
  const bool leads = rank == 0;
  const int r = hub.replica();
  Worker worker(rank, model_, &training_, nullptr, replica.store, replica.world,
                {.seed = experiment_.seed, .batch_norm = experiment_.batch_norm, .optimizer = experiment_.optimizer});
  replica.view.show(rank, worker);
  worker.barrier();
  if (leads) {
    replica.state = state_of(replica);
    replica.policy = update_->for_replica(hub);
    replica.policy->begin(replica.state);
    hub.barrier();
    replica.began = hub.now();
    if (r == 0) began_ = replica.began;
  }
  StepFacts facts;
  for (;; ++facts.step) {
    if (leads) replica.goes_on = !hub.is_lost() && lead_before(hub, replica, facts);
    worker.barrier();
    if (!replica.goes_on) break;
    double begin = 0;
    if (leads) {
      hub.begin_step();
      begin = hub.now() - replica.began;
    }
    // every replica has dropout masks of its own
    const StepOutcome outcome = worker.train({.step = facts.step * replicas_ + r,
                                              .batch = replica.batch,
                                              .learning_rate = rate_at(r, facts.step),
                                              .clip_norm = experiment_.clip_norm,
                                              .starts_stream = batches_.starts_stream(facts.step),
                                              .slowness = is_modelled() ? 1 : slowness_at(experiment_.worker_changes, replica.first_device + rank, facts.step)});
    replica.losses[size_t(rank)] = outcome.loss_sum;
    worker.settle();
    if (facts.step == 0) replica.view.show(rank, worker);  // the optimizer has its state now
    worker.barrier();
    if (!leads) continue;
    hub.end_step();
    if (facts.step == 0) replica.state = state_of(replica);
    if (hub.is_lost()) continue;
    double loss_sum = 0;
    for (double loss : replica.losses) loss_sum += loss;
    lead_after(hub, replica, facts, begin, loss_sum);
  }
  if (leads) end_replica(hub, replica);
}

/// The leader's part after the last step.
void ReplicaRun::end_replica(Hub& hub, Replica& replica) {
  if (hub.is_lost()) {
    {
      std::lock_guard lock(mutex_);
      lost_.insert(hub.replica());
      samples_of_lost_ += replica.samples;
    }
    return replica.policy->leave(replica.state);
  }
  replica.policy->finish(replica.state);
  int64_t samples = samples_of_all(hub, replica);
  int first_left = 0;  // all have the same values
  {
    std::lock_guard lock(mutex_);
    samples += samples_of_lost_;
    while (lost_.contains(first_left)) ++first_left;
  }
  if (hub.replica() == first_left) keep(samples, hub.now() - replica.began, values_of(replica.state));
}

void ReplicaRun::run_replica(Hub& hub) {
  Replica replica(training_, model_, experiment_.precision, hub.replica(), plan_.devices);
  const std::vector<int> threads(size_t(plan_.devices), experiment_.threads);
  run_crew(replica.world, [&](int rank) { train_replica(hub, rank, replica); }, threads, replica.first_device);
}

/// All that was kept, by the plan's workers, once nobody trains any more; the last is the result.
void ReplicaRun::evaluate_kept(const std::function<bool()>& stop) {
  std::stable_sort(kept_.begin(), kept_.end(), [](const ReplicaSnapshot& a, const ReplicaSnapshot& b) { return a.samples < b.samples; });
  Replica replica(training_, model_, experiment_.precision, 0, plan_.devices);
  std::vector<StepOutcome> sums(size_t(plan_.devices));
  bool stopped = false;
  const Batches& whole = batches_.whole();
  run_crew(replica.world, [&](int rank) {
    c10::InferenceMode inference;
    Worker worker(rank, model_, &training_, &evaluation_, replica.store, replica.world,
                  {.seed = experiment_.seed, .batch_norm = experiment_.batch_norm, .optimizer = experiment_.optimizer});
    replica.view.show(rank, worker);
    worker.barrier();
    if (rank == 0) replica.state = state_of(replica);
    for (const ReplicaSnapshot& snapshot : kept_) {
      if (rank == 0) {
        stopped = stop();
        write_values(snapshot.values, replica.state);
        replica.view.renew();
      }
      worker.barrier();
      if (stopped && &snapshot != &kept_.back()) continue;
      StepOutcome& sum = sums[size_t(rank)] = {};
      for (int64_t k = 0; k < whole.evaluations() && !stopped; ++k) {
        const StepOutcome part = worker.evaluate({.batch = batch_from(whole.evaluation(k)), .starts_stream = k == 0 || !data_.test->is_stream()});
        if (plan_.stages.size() > 1) worker.barrier();
        sum.loss_sum += part.loss_sum;
        for (const auto& [name, value] : part.metrics) sum.metrics[name] += value;
      }
      worker.barrier();
      if (rank == 0 && !stopped) note_evaluation(snapshot, sums);
      worker.barrier();
    }
    weights_->gather(rank, worker, replica.store);
  }, std::vector<int>(size_t(plan_.devices), experiment_.threads));
}

void ReplicaRun::note_evaluation(const ReplicaSnapshot& snapshot, const std::vector<StepOutcome>& outcomes) {
  StepOutcome sum;
  for (const StepOutcome& outcome : outcomes) {
    sum.loss_sum += outcome.loss_sum;
    for (const auto& [name, value] : outcome.metrics) sum.metrics[name] += value;
  }
  const LearningTask task = data_.train->task();
  const EvaluationSums sums{sum.metrics, sum.loss_sum, batches_.whole().test_samples(), data_.train->classes()};
  evaluations_.push_back({.step = (snapshot.samples + experiment_.batch - 1) / experiment_.batch,
                          .samples = snapshot.samples,
                          .epoch = double(snapshot.samples) / double(data_.train->size()),
                          .seconds = snapshot.seconds,
                          .loss = mean_loss(task, sums),
                          .metrics = evaluation_metrics(task, sums)});
}

void ReplicaRun::work(const std::function<bool()>& stop) {
  std::exception_ptr error;
  try {
    run_replicas(*world_, [this](Hub& hub) { run_replica(hub); });
  } catch (...) {
    error = std::current_exception();
  }
  if (const auto* steps = dynamic_cast<const SynchronousSteps*>(times_.get())) counts_ = steps->counts();
  else for (int r = 0; r < replicas_; ++r) counts_.push_back(world_->hub(r).counts());
  for (int d = 0; d < replicas_ * plan_.devices; ++d) {
    memory_.push_back(memory_use(d));
    set_memory_limit(d, 0);  // evaluations are nobody's
  }
  {
    std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  if (error && abort_reason().empty()) std::rethrow_exception(error);
  weights_ = std::make_unique<TrainedWeights>(training_, model_);
  if (!kept_.empty()) evaluate_kept(stop);
}

const TensorMap& ReplicaRun::weights() const {
  static const TensorMap none;
  return weights_ ? weights_->tensors() : none;
}

void ReplicaRun::abort(const std::string& reason) {
  {
    std::lock_guard lock(mutex_);
    if (!abort_reason_.empty() || over_) return;
    abort_reason_ = reason;
  }
  world_->abort(reason);
}

std::string ReplicaRun::abort_reason() const {
  std::lock_guard lock(mutex_);
  return abort_reason_;
}

std::vector<ReplicaStep> ReplicaRun::take_steps(double seconds, bool& over) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return over_ || !ended_.empty(); });
  std::vector<ReplicaStep> taken;
  taken.swap(ended_);
  over = over_ && taken.empty();
  return taken;
}

}  // namespace trireme
