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
#include "train/modelled_source.h"
#include "train/modelled_times.h"
#include "train/read_emulation.h"
#include "train/replica_plans.h"
#include "train/replica_reports.h"
#include "train/replica_view.h"
#include "train/trainer.h"
#include "update/federated.h"
#include "update/synchronous.h"
#include "update/hub/thread_world.h"
#include "update/virtual_hub.h"

namespace trireme {
namespace {

/// Of replicas: each fails with its workers.
VirtualFailures failures_of(const ReplicaSpec& spec, const UpdatePolicy& update) {
  std::vector<Failure> failures = spec.clock->failures;
  for (Failure& failure : failures) failure.replica /= spec.devices;
  return {Failures(std::move(failures)), update.outlives_replicas()};
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

}  // namespace

int64_t largest_exchange(const Experiment& experiment, const Model& model) {
  constexpr int64_t kBytes = sizeof(double);  // of an element, at most
  int64_t weights = 0, statistics = 0;
  for (const ParameterSpec& parameter : model.parameters()) weights += element_count(parameter.shape) + kBucketAlignment;
  for (const BufferSpec& buffer : model.buffers()) statistics += element_count(buffer.shape);
  return kBytes * ((1 + optimizer_state_count(experiment.optimizer)) * weights + statistics);
}

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

ReplicaRun::ReplicaRun(const Experiment& experiment, const Model& model, const TaskData& data, const std::string& strategy, int workers,
                       const MakeReplicaWorld& make_world)
    : experiment_(whole_experiment(experiment, workers)), model_(model), data_(data),
      update_((check_replicas(experiment_), make_policy(strategy, experiment.replicas, facts_of(experiment, workers)))),
      synchronous_(dynamic_cast<const SynchronousPolicy*>(update_.get())),
      plan_(synchronous_ ? plan_of_workers(experiment_, model, synchronous_->options(), workers) : plan_of_replica(experiment_, model, workers)),
      replicas_(synchronous_ ? 1 : workers / experiment.replicas.devices), training_(compile(model, plan_, replica_compile_options(experiment, true))),
      evaluation_(compile(model, plan_, replica_compile_options(experiment, false))),
      batches_(experiment_, data, synchronous_ ? workers : replicas_, update_->evaluates_together()),
      evaluator_({experiment_, model, data, plan_, training_, evaluation_, batches_.whole()}) {
  check_emulation(experiment_, workers);
  if (!synchronous_) check_replica_program(training_, experiment_.replicas.where, experiment_.replicas.plan);
  if (update_->shares_memory()) check_memory_is_shared(experiment_, strategy);
  if (experiment_.replicas.own_data && update_->evaluates_together())
    fail_user({strategy, "clients with data of their own", "its replicas make equally many steps, and data are of any size",
               "take fedavg or another policy where nobody waits, or leave out --own-data"});
  if (workers > kMaxDevices)
    fail_user({fmt::format("{} workers", workers), "are too many", fmt::format("at most {} can work in one process", kMaxDevices), "use fewer"});
  if (auto* federated = dynamic_cast<FederatedPolicy*>(update_.get())) {
    federated->on_round = [this, federated](const RoundRecord& record, const ModelValues& values) {
      if (!federated->counts_rounds() && samples() >= samples_of(experiment_.length)) federated->stop();
      int64_t samples = 0;
      if (!take_due(samples)) return;
      const DeviceScope nobodys(kNoDevice);  // as all snapshots: the evaluator's, not the replica's
      evaluator_.add({samples, record.seconds - began_, copy_of(values)});
    };
  } else {
    steps_ = steps_of_replica(0);
  }
  evaluate_every_ = std::max<int64_t>(1, samples_of(experiment.evaluate_every));
  next_evaluation_ = evaluate_every_;
  next_step_.resize(size_t(replicas_));
  memory_.resize(size_t(workers));
  if (make_world) {
    world_ = make_world(*this);
  } else if (is_modelled()) {
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

ReplicaState ReplicaRun::state_of(Replica& replica) const {
  ReplicaState state = replica.view.state();
  if (!update_->takes_rows()) state.tables.clear();
  return state;
}

int64_t ReplicaRun::steps_of_replica(int replica) const { return steps_of(experiment_.length, batches_.steps_per_epoch(replica)); }

int64_t ReplicaRun::samples_of(const Length& length) const {
  return length.unit == Length::Unit::epochs ? int64_t(length.count * double(batches_.samples_per_epoch())) : int64_t(length.count) * experiment_.batch;
}

int64_t ReplicaRun::samples() const {
  std::lock_guard lock(mutex_);
  return samples_;
}

/// Where the policy decides how long the run is, the schedule ends with the experiment's length, and its last rate goes on.
double ReplicaRun::rate_at(int replica, int64_t step) const {
  const int64_t total = steps_of_replica(replica);
  return learning_rate_at(experiment_, std::min(step, total - 1), total, batches_.steps_per_epoch(replica));
}

/// Wakes nobody: whoever shows the steps must not take a core from those who make them.
void ReplicaRun::note(const ReplicaStep& step) {
  std::lock_guard lock(mutex_);
  samples_ += step.samples;
  ended_.push_back(step);
  next_step_[size_t(step.replica)] = step.step + 1;
  last_end_ = std::max(last_end_, step.end);
}

int64_t ReplicaRun::next_step(int replica) const {
  std::lock_guard lock(mutex_);
  return next_step_[size_t(replica)];
}

/// Whether an evaluation's values are to be kept now, of which many samples.
bool ReplicaRun::take_due(int64_t& samples) {
  std::lock_guard lock(mutex_);
  if (samples_ < next_evaluation_) return false;
  samples = samples_;
  next_evaluation_ = (samples / evaluate_every_ + 1) * evaluate_every_;
  return true;
}

void ReplicaRun::take_report(int replica, Request report) {
  switch (kind_of(report)) {
    case ReplicaReportKind::began:
      if (began_ == 0) began_ = beginning_from(report);
      return;
    case ReplicaReportKind::steps:
      for (const ReplicaStep& step : steps_from(replica, report)) {
        if (step.step != next_step(replica) || step.samples > experiment_.batch)
          fail_run({"a replica's report", fmt::format("step {} of {} samples", step.step, step.samples), "is not its next", ""});
        note(step);
        keep_central_if_due(step.end);
      }
      return;
    case ReplicaReportKind::snapshot: return evaluator_.add(snapshot_from(std::move(report), snapshot_shape()));
    case ReplicaReportKind::memory:
      for (const DeviceMemory& memory : memory_from(report, int(memory_.size()))) memory_[size_t(memory.device)] = memory.use;
      return;
  }
}

/// The parameter server's values, where an evaluation is due; rounds are kept otherwise.
void ReplicaRun::keep_central_if_due(double seconds) {
  int64_t samples = 0;
  if (steps_ == 0 || !update_->server() || !take_due(samples)) return;
  const DeviceScope nobodys(kNoDevice);
  if (std::optional<ModelValues> values = update_->server()->values()) evaluator_.add({samples, seconds, std::move(*values)});
}

/// What a run that is ended before its time has come to, where a server knows it.
void ReplicaRun::keep_newest() {
  if (!update_->server()) return;
  const DeviceScope nobodys(kNoDevice);
  std::optional<ModelValues> values = update_->server()->values();
  std::lock_guard lock(mutex_);
  if (values && samples_ > 0) evaluator_.add({samples_, last_end_, std::move(*values)});
}

SnapshotShape ReplicaRun::snapshot_shape() const {
  SnapshotShape shape;
  for (const Bucket& bucket : training_.buckets)
    for (const int holder : bucket.holders) shape.elements += bucket.contributors.empty() ? 0 : bucket.slice_of(holder).size();
  for (const BufferSpec& buffer : model_.buffers()) shape.statistics += buffer.name.ends_with("running_mean") ? 1 : 0;
  return shape;
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
    const DeviceScope nobodys(kNoDevice);
    ModelValues values = replica.policy->values_for_evaluation(replica.state);
    const int64_t samples = samples_of_all(hub, replica);
    if (hub.replica() != 0) return;
    return hand_over(hub, {samples, hub.now() - replica.began, std::move(values)});
  }
  if (hub.reports()) return;  // the server does it
  int64_t samples = 0;
  if (!take_due(samples)) return;
  const double seconds = hub.now() - replica.began;
  const DeviceScope nobodys(kNoDevice);
  evaluator_.add({samples, seconds, replica.policy->values_for_evaluation(replica.state)});
}

/// To whoever evaluates it.
void ReplicaRun::hand_over(Hub& hub, ReplicaSnapshot snapshot) {
  if (hub.reports()) hub.report(report_of(snapshot));
  else evaluator_.add(std::move(snapshot));
}

/// The leader's part before a step. Whether there is one.
bool ReplicaRun::lead_before(Hub& hub, Replica& replica, StepFacts& facts) {
  const int r = hub.replica();
  if (steps_ > 0 && facts.step == steps_of_replica(r)) return false;
  facts.samples = synchronous_ ? batches_.samples_together(facts.step) : batches_.samples_in(r, facts.step);
  facts.learning_rate = rate_at(r, facts.step);
  facts.ends_epoch = (facts.step + 1) % batches_.steps_per_epoch(r) == 0;
  replica.batch = batch_from(synchronous_ ? batches_.together(facts.step) : batches_.training(r, facts.step));
  if (!replica.state.tables.empty()) {
    std::vector<at::Tensor> inputs;
    replica.batch = read_now(replica.batch, inputs);
    facts.rows = replica.view.rows_in(inputs);
  }
  const ReplicaPolicy::Before before = replica.policy->before_step(facts, replica.state);
  if (before.wrote) replica.view.renew();
  return !before.stop;
}

void ReplicaRun::lead_after(Hub& hub, Replica& replica, const StepFacts& facts, double begin, double loss_sum) {
  const ReplicaStep step{hub.replica(), facts.step, facts.samples, loss_sum, begin, hub.now() - replica.began};
  note(step);
  if (hub.reports()) hub.report(report_of(step));
  replica.samples += facts.samples;
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
    if (!hub.came_late()) hub.barrier();
    replica.began = hub.now();
    if (r == 0) began_ = replica.began;
    if (hub.reports()) hub.report(report_of_beginning(replica.began));
  }
  const int64_t first = hub.first_step();
  StepFacts facts{.step = first};
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
    if (facts.step == first) replica.view.show(rank, worker);  // the optimizer has its state now
    worker.barrier();
    if (!leads) continue;
    hub.end_step();
    if (facts.step == first) replica.state = state_of(replica);
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
  bool speaks = hub.speaks_for_all();  // all have the same values
  {
    std::lock_guard lock(mutex_);
    samples += samples_of_lost_;
    int first_left = 0;
    while (lost_.contains(first_left)) ++first_left;
    if (!lost_.empty()) speaks = hub.replica() == first_left;
  }
  if (speaks) hand_over(hub, {samples, hub.now() - replica.began, values_of(replica.state)});
  if (!hub.reports()) return;
  for (int d = 0; d < plan_.devices; ++d) hub.report(report_of(replica.first_device + d, memory_use(replica.first_device + d)));
}

void ReplicaRun::run_replica(Hub& hub) {
  Replica replica(training_, model_, experiment_.precision, hub.replica(), plan_.devices);
  const std::vector<int> threads(size_t(plan_.devices), experiment_.threads);
  run_crew(replica.world, [&](int rank) { train_replica(hub, rank, replica); }, threads, replica.first_device);
}

void ReplicaRun::work(const std::function<bool()>& stop) {
  std::exception_ptr error;
  if (world_->serves()) {
    lift_memory_limits();
    evaluator_.start(stop);
  }
  try {
    world_->run([this](Hub& hub) { run_replica(hub); });
  } catch (...) {
    error = std::current_exception();
  }
  if (const auto* steps = dynamic_cast<const SynchronousSteps*>(times_.get())) counts_ = steps->counts();
  else for (int r = 0; r < replicas_; ++r) counts_.push_back(world_->counts(r));
  for (size_t d = 0; d < memory_.size(); ++d)
    if (memory_[d].peak == 0 && !world_->serves()) memory_[d] = memory_use(int(d));  // else it was reported
  lift_memory_limits();
  if (error) keep_newest();
  {
    std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  if (error && abort_reason().empty()) std::rethrow_exception(error);
  evaluator_.finish(stop);
}

/// Evaluations are nobody's.
void ReplicaRun::lift_memory_limits() {
  for (size_t d = 0; d < memory_.size(); ++d) set_memory_limit(int(d), 0);
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
  changed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return over_; });
  std::vector<ReplicaStep> taken;
  taken.swap(ended_);
  over = over_ && taken.empty();
  return taken;
}

}  // namespace trireme
