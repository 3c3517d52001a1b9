// RunAgreement: checkpoints of replicas that agree, and the reports of replicas in other processes.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "base/memory.h"
#include "train/agreement/agreement_state.h"
#include "train/agreement/replica_group.h"
#include "train/agreement/replica_reports.h"
#include "train/agreement/run_agreement.h"
#include "train/agreement/server_state.h"
#include "trireme/error.h"
#include "update/policy_state.h"

namespace trireme {
namespace {

constexpr auto kPatience = std::chrono::milliseconds(50);

}  // namespace

void RunAgreement::resume(TrainingState state, std::vector<std::unique_ptr<ReplicaGroup>>& groups) {
  check_order(training_, state);
  AgreementParts parts = take_apart(std::move(state), plan_.replicas);
  update_->resume(parts.shared, 0);
  for (size_t r = 0; r < groups.size(); ++r) {
    groups[r]->resumed = std::move(parts.replicas[r]);
    groups[r]->samples = begun_[r].samples;
  }
  MutexLock lock(mutex_);
  resumed_ = std::move(parts.policies);
  if (shown_.best && parts.best)
    best_ = ReplicaSnapshot{shown_.best->samples, shown_.best->seconds, std::move(*parts.best)};
  else shown_.best.reset();
}

void RunAgreement::wait_for_all(ReplicaGroup& group) {
  Hub::Unmetered quiet(group.agreement->hub());
  group.agreement->hub().barrier();
}

void RunAgreement::keep(ReplicaGroup& group, TrainingState state) {
  const DeviceScope uncharged(kNoDevice);
  const PolicyStateParts own = parts_of(group.agreement->policy().state(group.agreement->state()));
  Hub& hub = group.agreement->hub();
  const ReplicaProgress progress{.steps = next_step(group.number), .samples = group.samples};
  TrainingState part;
  add_policy(std::to_string(group.number), own, part);
  if (group.number == 0) {
    add_policy(kShared, parts_of(update_->state(hub.now())), part);
    add_order(training_, part);
    add_shown(part);
  }
  add_replica(group.number, progress, std::move(state), part);
  if (hub.reports()) return hub.report(report_of(part));
  add_part(std::move(part));
}

/// `part`: of one replica, the first or another.
void RunAgreement::add_part(TrainingState part) {
  {
    MutexLock lock(mutex_);
    if (!part.weights.empty()) {
      part.agreement.merge(kept_.agreement);
      part.agreement_texts.merge(kept_.agreement_texts);
      kept_ = std::move(part);
    } else {
      kept_.agreement.merge(part.agreement);
      kept_.agreement_texts.merge(part.agreement_texts);
    }
    ++kept_parts_;
  }
  changed_.notify_all();
}

TrainingState RunAgreement::take_kept() {
  MutexLock lock(mutex_);
  while (!changed_.wait_for(mutex_, kPatience,
                            [this]() TRIREME_REQUIRES(mutex_) { return kept_parts_ == plan_.replicas; })) {
    const std::string reason = abort_reason_.empty() ? world_->abort_reason() : abort_reason_;
    if (!reason.empty()) fail_run({"a checkpoint", "is not complete", reason, ""});
  }
  kept_parts_ = 0;
  return std::exchange(kept_, {});
}

int64_t RunAgreement::take_report(int replica, Request report) {
  take(replica, std::move(report));
  return stops_.wanted();
}

void RunAgreement::take(int replica, Request report) {
  switch (kind_of(report)) {
    case ReplicaReportKind::began:
      if (began_ == 0) began_ = beginning_from(report) - begun_seconds_;
      if (world_->serves()) client_began_[size_t(replica)] = beginning_from(report);
      return;
    case ReplicaReportKind::steps:
      for (TrainedStep step : steps_from(report)) {
        if (step.facts.step != next_step(replica) || step.facts.samples > experiment_.batch)
          fail_run({"a replica's report", fmt::format("step {} of {} samples", step.facts.step, step.facts.samples),
                    "is not its next step", ""});
        if (world_->serves()) {
          step.begin += begun_of_client(replica);
          step.end += begun_of_client(replica);
        }
        note(replica, step, /*decides=*/!world_->serves());
        if (world_->serves()) keep_central_if_due(step.end);  // otherwise this process has a replica, which does it
      }
      if (world_->serves()) write_server_state(/*is_last=*/false);
      return;
    case ReplicaReportKind::snapshot: {
      ReplicaSnapshot snapshot = snapshot_from(std::move(report), snapshot_shape());
      if (world_->serves() && update_->server()) {  // the run's result, after all reports of steps
        snapshot.samples = samples();
        snapshot.seconds += begun_of_client(replica);
      }
      return add_snapshot(std::move(snapshot));
    }
    case ReplicaReportKind::worker:
      for (const ReportedWorker& worker : workers_from(report, int(memory_.size()))) {
        memory_[size_t(worker.device)] = worker.memory;
        if (!inner_work_.empty()) inner_work_[size_t(worker.device)] = worker.work;
      }
      return;
    case ReplicaReportKind::state: return add_part(state_from(std::move(report)));
    case ReplicaReportKind::end:
      if (!world_->serves()) end_for(replica);
      return;
  }
}

/// Returns the seconds of the run at which the client's present run began. A client does not know of an earlier run of
/// the server, nor of steps that others made while it was absent.
double RunAgreement::begun_of_client(int replica) const {
  return std::max(begun_seconds_, client_began_[size_t(replica)] - began_);
}

/// The replica's process has received a signal to end. The first of several is kept.
void RunAgreement::end_for(int replica) {
  int none = 0;
  end_requested_by_.compare_exchange_strong(none, replica);
  stop(kInterrupted);
}

/// Call it while no replica visits the server. `is_last`: writes whether due or not.
void RunAgreement::write_server_state(bool is_last) {
  if (!stops_.writes()) return;
  {
    MutexLock lock(mutex_);
    if (!is_last && samples_ < next_state_) return;
    if (steps_ < plan_.replicas) return;  // the run has no step yet
  }
  if (!takes_server_state(is_last)) return;
  const DeviceScope uncharged(kNoDevice);
  const std::optional<ModelValues> values = update_->server()->values();
  if (!values) return;
  TrainingState state = state_of_values(training_, model_, experiment_.precision, experiment_.seed, *values);
  add_policy(kShared, parts_of(update_->state(world_->now())), state);
  add_order(training_, state);
  add_shown(state);
  {
    MutexLock lock(mutex_);
    for (size_t r = 0; r < next_step_.size(); ++r) add_progress(int(r), {next_step_[r], samples_of_replica_[r]}, state);
    next_state_ = stops_.next_after(samples_);
  }
  on_server_state(std::move(state));
}

}  // namespace trireme
