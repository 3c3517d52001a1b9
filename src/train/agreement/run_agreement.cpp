#include "train/agreement/run_agreement.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/counted.h"
#include "base/memory.h"
#include "base/text_parts.h"
#include "experiment/read_emulation.h"
#include "forecast/agreement_plan.h"
#include "forecast/modelled_source.h"
#include "forecast/modelled_steps.h"
#include "plan/named.h"
#include "plan/strategies.h"
#include "runtime/local_parts_of.h"
#include "train/agreement/agreement_state.h"
#include "train/agreement/replica_group.h"
#include "train/agreement/replica_reports.h"
#include "train/agreement/server_state.h"
#include "trireme/error.h"
#include "update/federated.h"
#include "update/hub/rank_world.h"
#include "update/hub/thread_world.h"
#include "update/hub/virtual_world.h"
#include "update/synchronous.h"

namespace trireme {
namespace {

constexpr const char* kInterruptedOn = "interrupted on rank";

/// The failures of workers as failures of replicas: a replica fails with each of its workers.
VirtualFailures failures_of(const RunSpec& experiment, const Plan& plan, const UpdatePolicy& update) {
  std::vector<Failure> failures = experiment.replicas.clock->failures;
  for (Failure& failure : failures) failure.replica /= plan.devices;
  return {Failures(std::move(failures)), update.outlives_replicas()};
}

/// The user waits, or a comparison ends the process soon after the limit.
bool leaves_evaluations_out(const std::string& reason) { return reason == kInterrupted || reason == kOutOfTime; }

}  // namespace

std::string interrupted_on(int rank) { return fmt::format("{} {}", kInterruptedOn, rank); }

std::optional<int> rank_interrupted(const std::string& abort_reason) {
  const std::string prefix = fmt::format("{} ", kInterruptedOn);
  return abort_reason.starts_with(prefix) ? number_in<int>(abort_reason.substr(prefix.size())) : std::nullopt;
}

bool ends_well(const std::string& abort_reason) {
  return abort_reason == kInterrupted || abort_reason == kOutOfTime || abort_reason == kDiverged ||
         rank_interrupted(abort_reason);
}

MakeReplicaWorld replicas_as_ranks(Communicator& leaders) {
  const auto make = [&leaders](RunAgreement& agreement) -> std::unique_ptr<HubWorld> {
    if (agreement.update().shares_memory())
      fail_user({"--plan", agreement.update().description(), "its replicas share memory, and processes do not",
                 "use trireme train without launch"});
    const auto take_report = [&agreement](int replica, Request report) {
      return agreement.take_report(replica, std::move(report));
    };
    return std::make_unique<RankWorld>(leaders, agreement.update().server(), take_report);
  };
  return {make, ReplicaHosting::processes};
}

int64_t largest_exchange(const Experiment& experiment, const Model& model) {
  constexpr int64_t kBytes = sizeof(double);  // most bytes of an element
  int64_t weights = 0, statistics = 0;
  for (const ParameterSpec& parameter : model.parameters())
    weights += element_count(parameter.shape) + kBucketAlignment;
  for (const BufferSpec& buffer : model.buffers()) statistics += element_count(buffer.shape);
  return kBytes * ((1 + optimizer_state_count(experiment.optimizer)) * weights + statistics);
}

RunAgreement::RunAgreement(const RunSpec& experiment, const Model& model, const TaskData& data, const Plan& plan,
                           const Program& training, const Program& evaluation, StepRecords& records,
                           const MakeReplicaWorld& make_world, bool writes, const AgreementBeginning& beginning)
    : experiment_(experiment),
      model_(model),
      data_(data),
      plan_(plan),
      training_(training),
      records_(records),
      update_((check_replicas(experiment), make_policy(plan.agreement, {}, facts_of(experiment, plan)))),
      synchronous_(dynamic_cast<const SynchronousPolicy*>(update_.get())),
      batches_(experiment, data, synchronous_ ? plan.devices : plan.replicas, update_->evaluates_together()),
      begun_step_(beginning.step),
      begun_(progress_of(beginning, batches_, plan.replicas)),
      stops_(*update_, stops_of(experiment, *update_, batches_, begun_, writes, make_world.hosting),
             trireme::samples_of(begun_)),
      begun_seconds_(beginning.seconds),
      all_here_(!make_world.make),
      stopping_(experiment.early_stopping, data.train->task(), experiment.target, beginning.stopping),
      evaluator_({experiment, model, plan, training, evaluation, batches_}, records) {
  check_emulation(experiment, plan.workers());
  if (update_->shares_memory()) check_memory_is_shared(experiment, plan.name);
  check_inner_plan(plan, *update_);
  if (experiment.own_data && update_->evaluates_together())
    fail_user({plan.name, "clients with data of their own",
               "its replicas must make equally many steps, but the clients' data differ in size",
               "use fedavg or another policy whose replicas do not wait for each other, or leave out --own-data"});
  if (plan.workers() > kMaxDevices)
    fail_user({counted(plan.workers(), "worker"), "are too many",
               fmt::format("at most {} can work in one process", kMaxDevices), "use fewer"});
  if (const std::vector<std::string> words = update_->local_parameters(); !words.empty())
    update_->set_local(local_parts_of(training, model, words, place_of_option(plan.agreement, {}, "local_parameters")));
  follow_rounds();
  evaluate_every_ = std::max<int64_t>(1, samples_of(experiment.evaluate_every));
  samples_ = trireme::samples_of(begun_);
  next_state_ = stops_.next_after(samples_);
  next_evaluation_ = (samples_ / evaluate_every_ + 1) * evaluate_every_;
  for (const ReplicaProgress& one : begun_) {
    next_step_.push_back(one.steps);
    samples_of_replica_.push_back(one.samples);
  }
  memory_.resize(size_t(plan.workers()));
  client_began_.resize(size_t(plan.replicas));
  if (!synchronous_ && plan.devices > 1) inner_work_.resize(memory_.size());
  if (make_world.make) {
    world_ = make_world.make(*this);
    has_ranks_ = !world_->serves();
  } else if (is_modelled()) {
    begin_modelled_time();
  } else {
    const auto links =
        experiment.links ? std::make_shared<EmulatedLinks>(plan.replicas + 1, *experiment.links) : nullptr;
    world_ = std::make_unique<ThreadWorld>(plan.replicas, update_->server(), links);
  }
  if (experiment.early_stopping.watches()) begin_watching(beginning, make_world.hosting);
}

RunAgreement::~RunAgreement() = default;

/// With a federated policy, the policy decides the length of the run, and its rounds are evaluated.
void RunAgreement::follow_rounds() {
  auto* federated = dynamic_cast<FederatedPolicy*>(update_.get());
  if (!federated) return;
  policy_decides_length_ = true;
  federated->on_round = [this, federated](const RoundRecord& record, const ModelValues& values) {
    if (!federated->counts_rounds() && samples() >= samples_of(experiment_.length)) federated->stop();
    int64_t samples = 0;
    if (!take_due(samples)) return;
    // As for all snapshots: charged to no device, since they belong to the evaluator.
    const DeviceScope uncharged(kNoDevice);
    add_snapshot({samples, record.seconds, copy_of(values)});
    if (is_modelled()) wait_for_evaluations();  // where the run ends must not depend on how long they take
  };
  federated->run_seconds = [this](double now) { return now - began_; };
}

void RunAgreement::begin_modelled_time() {
  if (!synchronous_) {
    ComputeTimes times(experiment_, seconds_by_samples(experiment_, model_, plan_, plan_.replicas));
    times_ = std::make_unique<StepsBySamples>(std::move(times), batches_, next_step_);
    world_ = std::make_unique<VirtualWorld>(plan_.replicas, *times_,
                                            modelled_links(experiment_, plan_.replicas, plan_.devices),
                                            update_->server(), failures_of(experiment_, plan_, *update_));
    return;
  }
  times_ = synchronous_steps(
      experiment_, model_, plan_, training_, [this](int64_t step) { return batches_.samples_together(step); },
      experiment_.replicas.clock->failures);
  world_ = std::make_unique<VirtualWorld>(1, *times_);
}

PlannedBatch RunAgreement::batch(int replica, int64_t step) const {
  return synchronous_ ? batches_.together(step) : batches_.training(replica, step);
}

int64_t RunAgreement::steps_of_replica(int replica) const {
  return policy_decides_length_ ? 0 : steps_of(experiment_.length, batches_.steps_per_epoch(replica));
}

int64_t RunAgreement::steps_of_run() const {
  return policy_decides_length_ ? 0 : trireme::steps_of_run(experiment_.length, batches_, plan_.replicas);
}

int64_t RunAgreement::samples_of(const Length& length) const {
  return trireme::samples_of(length, batches_, experiment_.batch);
}

int64_t RunAgreement::samples() const {
  MutexLock lock(mutex_);
  return samples_;
}

/// If the policy decides the length of the run, the learning rate's schedule ends with the experiment's length, and its
/// last rate stays in use.
double RunAgreement::rate_at(int replica, int64_t step) const {
  const int64_t total = steps_of(experiment_.length, batches_.steps_per_epoch(replica));
  return learning_rate_at(experiment_, std::min(step, total - 1), total, batches_.steps_per_epoch(replica));
}

/// `decides`: this process decides when replicas stop.
void RunAgreement::note(int replica, const TrainedStep& step, bool decides) {
  int64_t samples = 0;
  {
    MutexLock lock(mutex_);
    samples = samples_ += step.facts.samples;
    samples_of_replica_[size_t(replica)] += step.facts.samples;
    ++steps_;
    next_step_[size_t(replica)] = step.facts.step + 1;
    last_end_ = std::max(last_end_, step.end);
  }
  StepOutcome outcome;
  outcome.loss_sum = step.loss_sum;
  outcome.begin = step.begin;
  outcome.end = step.end;
  outcome.gradient_squares = step.gradient_squares;
  outcome.updated_step = step.facts.step;
  records_.post_whole({.step = step.facts.step + 1,
                       .outcomes = {std::move(outcome)},
                       .replica = replica,
                       .samples = step.facts.samples});
  if (decides) stops_.note(replica, step.facts.step + 1, samples);
}

int64_t RunAgreement::steps_so_far() const {
  MutexLock lock(mutex_);
  return begun_step_ + (begun_rest() + steps_) / plan_.replicas;
}

int64_t RunAgreement::begun_rest() const {
  int64_t steps = 0;
  for (const ReplicaProgress& one : begun_) steps += one.steps;
  return std::max<int64_t>(0, steps - begun_step_ * plan_.replicas);
}

int64_t RunAgreement::next_step(int replica) const {
  MutexLock lock(mutex_);
  return next_step_[size_t(replica)];
}

std::unique_ptr<ReplicaAgreement> RunAgreement::make_part(Hub& hub, ReplicaGroup& group) {
  auto part = std::make_unique<ReplicaAgreement>(training_, model_, *update_, hub);
  {
    MutexLock lock(mutex_);
    if (!resumed_.empty()) part->resumed = std::move(resumed_[size_t(group.number)]);
    if (!all_here_) resumed_.clear();
  }
  part->on_begin = [this, &hub, &group] {
    group.began = hub.now() - begun_seconds_;
    if (group.number == 0) began_ = group.began;
    if (hub.reports()) hub.report(report_of_beginning(hub.now()));
  };
  part->on_trained = [this, &hub, &group](TrainedStep step) {
    step.begin -= group.began;
    step.end -= group.began;
    note(group.number, step, /*decides=*/!hub.reports());
    if (hub.reports()) hub.report(report_of(step));
    if (stops_.takes_request_to_tell()) hub.report(report_of_end());
    if (hub.reports()) stops_.hear(hub.announced());
    group.samples += step.facts.samples;
  };
  return part;
}

/// Returns true if values for an evaluation must be taken now; `samples` is then the number of samples so far.
bool RunAgreement::take_due(int64_t& samples) {
  MutexLock lock(mutex_);
  if (samples_ < next_evaluation_) return false;
  samples = samples_;
  next_evaluation_ = (samples / evaluate_every_ + 1) * evaluate_every_;
  return true;
}

/// Takes the parameter server's values if an evaluation is due. With a federated policy the rounds are taken instead.
void RunAgreement::keep_central_if_due(double seconds) {
  int64_t samples = 0;
  if (policy_decides_length_ || !update_->server() || !take_due(samples)) return;
  const DeviceScope uncharged(kNoDevice);
  if (std::optional<ModelValues> values = update_->server()->values())
    evaluator_.add({samples, seconds, std::move(*values)});
}

/// Takes the newest values of a run that ended early, if a server has them.
void RunAgreement::keep_newest() {
  if (!update_->server()) return;
  const DeviceScope uncharged(kNoDevice);
  std::optional<ModelValues> values = update_->server()->values();
  MutexLock lock(mutex_);
  if (values && samples_ > 0) add_snapshot({samples_, last_end_, std::move(*values)});
}

SnapshotShape RunAgreement::snapshot_shape() const {
  SnapshotShape shape;
  for (const Bucket& bucket : training_.buckets)
    for (const int holder : bucket.holders)
      shape.elements += bucket.contributors.empty() ? 0 : bucket.slice_of(holder).size();
  for (const BufferSpec& buffer : model_.buffers()) shape.statistics += buffer.name.ends_with("running_mean") ? 1 : 0;
  return shape;
}

/// Returns the samples of the steps so far. All replicas must call it together.
int64_t RunAgreement::samples_of_all(Hub& hub, const ReplicaGroup& group) {
  Hub::Unmetered quiet(hub);
  return int64_t(hub.total(double(group.samples)));
}

void RunAgreement::after_step(ReplicaGroup& group, int64_t step) {
  if (!group.agreement->hub().is_lost()) keep_if_due(group, step);
}

void RunAgreement::keep_if_due(ReplicaGroup& group, int64_t step) {
  if (policy_decides_length_) return;  // rounds are taken instead
  Hub& hub = group.agreement->hub();
  if (update_->evaluates_together()) {
    const int64_t every = steps_of(experiment_.evaluate_every, batches_.steps_per_epoch(group.number));
    if ((step + 1) % every != 0 || step + 1 == steps_of_replica(group.number)) return;
    const DeviceScope uncharged(kNoDevice);
    ModelValues values = group.agreement->values_for_evaluation();
    const int64_t samples = samples_of_all(hub, group);
    if (group.number == 0) hand_over(hub, {samples, hub.now() - group.began, std::move(values)});
    if (waits_together_) evaluate_together(group);
    return;
  }
  if (hub.reports()) return;  // the server takes the values
  int64_t samples = 0;
  if (!take_due(samples)) return;
  const double seconds = hub.now() - group.began;
  const DeviceScope uncharged(kNoDevice);
  evaluator_.add({samples, seconds, group.agreement->values_for_evaluation()});
  if (is_modelled()) wait_for_evaluations();  // where the run ends must not depend on how long they take
}

/// Passes the snapshot to the process that evaluates it.
void RunAgreement::hand_over(Hub& hub, ReplicaSnapshot snapshot) {
  if (hub.reports()) hub.report(report_of(snapshot));
  else add_snapshot(std::move(snapshot));
}

/// Adds the values of the run as a whole, and where clients keep local parameters each client's own.
void RunAgreement::add_snapshot(ReplicaSnapshot snapshot) {
  const DeviceScope uncharged(kNoDevice);
  if (const auto* federated = dynamic_cast<const FederatedPolicy*>(update_.get()))
    snapshot.own = federated->own_models();
  evaluator_.add(std::move(snapshot));
}

void RunAgreement::end(ReplicaGroup& group) {
  Hub& hub = group.agreement->hub();
  if (hub.is_lost()) {
    MutexLock lock(mutex_);
    lost_.insert(group.number);
    samples_of_lost_ += group.samples;
  }
  group.agreement->finish();
  if (hub.is_lost()) return;
  int64_t samples = samples_of_all(hub, group);
  bool hands_over = hub.reports_for_all();  // if true, all replicas have the same values and this one hands them over
  {
    MutexLock lock(mutex_);
    samples += samples_of_lost_;
    int first_left = 0;
    while (lost_.contains(first_left)) ++first_left;
    if (!lost_.empty()) hands_over = group.number == first_left;
  }
  if (hands_over && !group.has_ended) {  // otherwise the result are the values that were evaluated
    const DeviceScope uncharged(kNoDevice);
    hand_over(hub, {samples, hub.now() - group.began, group.agreement->values()});
  }
  if (!hub.reports()) return;
  for (int d = group.first_rank; d < group.first_rank + plan_.devices; ++d)
    hub.report(report_of(ReportedWorker{d, memory_use(d), inner_work_.empty() ? InnerWork{} : inner_work_[size_t(d)]}));
}

void RunAgreement::note_inner(int worker, const StepOutcome& outcome, double load_seconds) {
  if (inner_work_.empty()) return;
  InnerWork& work = inner_work_[size_t(worker)];
  work.compute_seconds += std::max(0.0, outcome.compute_seconds - load_seconds);
  work.exposed_seconds += std::max(0.0, outcome.exposed_seconds);
  work.bytes_sent += outcome.bytes_sent;
}

void RunAgreement::work(const std::function<void(Hub&)>& body) {
  std::exception_ptr error;
  const auto stop = [this] {
    MutexLock lock(mutex_);
    return leaves_evaluations_out(abort_reason_) || leaves_evaluations_out(stop_reason_);
  };
  if (world_->serves()) {
    lift_memory_limits();
    evaluator_.start(stop);
  } else if (evaluates_now_) {
    evaluator_.start(stop, plan_.workers());
  }
  try {
    world_->run(body);
  } catch (...) {
    error = std::current_exception();
  }
  if (const auto* steps = dynamic_cast<const SynchronousSteps*>(times_.get())) counts_ = steps->counts();
  else
    for (int r = 0; r < plan_.replicas; ++r) counts_.push_back(world_->counts(r));
  // Otherwise it was reported.
  for (size_t d = 0; d < memory_.size(); ++d)
    if (memory_[d].peak == 0 && !world_->serves()) memory_[d] = memory_use(int(d));
  lift_memory_limits();
  if (error && !has_ranks_) keep_newest();
  if (world_->serves()) write_server_state(/*is_last=*/true);
  bool was_aborted = false;
  {
    MutexLock lock(mutex_);
    over_ = true;
    was_aborted = !abort_reason_.empty();
  }
  if (error && !was_aborted) std::rethrow_exception(error);
  evaluator_.finish(stop);
}

bool RunAgreement::is_over() const {
  MutexLock lock(mutex_);
  return over_;
}

/// Evaluations are charged to no worker, so no limit applies.
void RunAgreement::lift_memory_limits() {
  for (size_t d = 0; d < memory_.size(); ++d) set_memory_limit(int(d), 0);
}

void RunAgreement::abort(const std::string& reason) {
  {
    MutexLock lock(mutex_);
    if (!abort_reason_.empty()) return;
    abort_reason_ = reason;
    if (over_) return;
  }
  world_->abort(reason);
}

bool RunAgreement::stop(const std::string& reason) {
  {
    MutexLock lock(mutex_);
    if (stop_reason_ == reason) return true;
    auto* const federated = dynamic_cast<FederatedPolicy*>(update_.get());
    if (world_->serves() && federated && steps_ > 0) federated->stop();  // clients end when the open round is over
    else if (!stops_.end(world_->decides())) return false;
    stop_reason_ = reason;
  }
  return true;
}

}  // namespace trireme
