#include "train/coordinate/coordinator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/seconds.h"

namespace trireme {
namespace {

constexpr double kReaderPollSeconds = 0.05;
constexpr double kCleanSeconds = 0.5;  // after an interrupt, for workers to finish their step and hand out the weights
constexpr double kCleanSecondsOfClients = 5;  // the same for clients to finish their round and leave
constexpr double kCleanSecondsToResume = 10;  // the same if a checkpoint of the trained steps must be written
constexpr double kWorkerPatienceSeconds = 1;  // after that, for workers to finish their current layer
constexpr double kNoHurry = std::numeric_limits<double>::infinity();

/// `begun_at`: the point that earlier runs had reached. `previous`: the point before this one.
StepReport step_report(const CurvePoint& point, const Summary& summary, const Run& run, const CurvePoint& begun_at,
                       const CurvePoint& previous, double started) {
  StepReport report;
  report.point = point;
  report.total_steps = run.steps;
  if (const RunAgreement* agreement = run.agreement()) {
    report.step_seconds = (point.seconds - previous.seconds) / double(point.step - previous.step);
    report.samples_per_second = point.seconds > 0 ? double(point.samples) / point.seconds : 0;
    const bool is_known = !agreement->is_modelled() && run.steps > 0;
    const double mean = point.seconds / double(point.step);
    report.seconds_left = is_known ? mean * double(std::max<int64_t>(0, run.steps - point.step)) : 0;
    return report;
  }
  report.step_seconds = summary.last_step_seconds();
  report.samples_per_second = double(point.samples - begun_at.samples) / (point.seconds - begun_at.seconds);
  // The time of evaluations so far is spread over the steps so far.
  report.seconds_left =
      (steady_seconds() - started) / double(point.step - begun_at.step) * double(run.steps - point.step);
  return report;
}

/// Returns the learning rate with which the step was made.
double rate_of(const StepRecord& entry, const Run& run) {
  const int64_t step = entry.step - 1;
  return run.agreement() ? run.agreement()->rate_at(entry.replica, step)
                         : learning_rate_at(run.experiment, step, run.steps, run.sampler().steps_per_epoch());
}

/// Returns what is not finite in a finished step; "" if everything is finite. The loss is reported first, because
/// gradients follow from it. `loss`: of all workers.
std::string not_finite_in(const StepRecord& entry, double loss) {
  std::vector<size_t> bad;
  size_t counting = 0;
  const StepOutcome* first = nullptr;
  for (const StepOutcome& outcome : entry.outcomes) {
    counting += outcome.loss_sum != 0;
    if (!std::isfinite(outcome.loss_sum)) bad.push_back(size_t(&outcome - entry.outcomes.data()));
    if (!outcome.not_finite.empty() && (!first || outcome.not_finite_at < first->not_finite_at)) first = &outcome;
  }
  if (!std::isfinite(loss)) {
    const std::string whose =
        bad.empty() || bad.size() == counting ? "" : fmt::format(" on rank {}", fmt::join(bad, ", "));
    return fmt::format("the loss of step {} is not finite{}", entry.step, whose);
  }
  if (!first) return "";
  return fmt::format("rank {}'s gradient of {} is not finite in step {}", first - entry.outcomes.data(),
                     first->not_finite, entry.step);
}

/// The same for a replica that would spoil the other replicas' weights.
std::string not_finite_of_replica(const StepRecord& entry, const RunAgreement& agreement) {
  if (std::isfinite(entry.loss_sum()) || agreement.update().refuses_broken_values()) return "";
  return fmt::format("the loss of a replica's step {} is not finite", entry.step);
}

}  // namespace

void Adaptation::after_step(const StepRecord& entry, double seconds) {
  if (!adapter_ || entry.plan < plan_) return;  // the requested change is still pending
  const RunSpec& e = run_.experiment;
  MeasuredStep step{.step = entry.step,
                    .steps_left = run_.steps - entry.step,
                    .seconds = seconds,
                    .plan = entry.plan,
                    .links = run_.take_links(),
                    .memory = memory_limit_at(e.memory_changes, e.device_memory, entry.step)};
  for (size_t rank = 0; rank < entry.outcomes.size(); ++rank)
    step.compute.push_back(std::max(0.0, entry.outcomes[rank].compute_seconds - entry.load_seconds[rank]));
  Adapter::Wish wish = adapter_->after_step(step);
  if (!wish.warning.empty()) warnings_.push_back(std::move(wish.warning));
  if (wish.links) run_.gate.request_probe();
  if (!wish.change) return;
  plan_ = entry.plan + 1;
  run_.change_plan(std::move(*wish.change));
}

Coordinator::Coordinator(const Parts& parts, const CurvePoint& begun_at, bool waits_for_clients)
    : parts_(parts),
      run_(parts.run),
      agreement_(parts.run.agreement()),
      begun_at_(begun_at),
      previous_(begun_at),
      started_(steady_seconds()),
      clean_seconds_(parts.checkpoints.writes() ? kCleanSecondsToResume
                     : waits_for_clients        ? kCleanSecondsOfClients
                                                : kCleanSeconds),
      limited_from_(waits_for_clients ? 0 : started_) {}

RunEnding Coordinator::coordinate() {
  while (true) {
    bool timed_out_waiting = false;
    const auto entry = run_.records.next(kReaderPollSeconds, timed_out_waiting);
    if (!entry && !timed_out_waiting) return ending_;
    if (entry && entry->evaluation) take_evaluation(*entry);
    else if (entry) take_step(*entry);
    parts_.checkpoints.poll();
    end_if_checkpoints_fail();
    end_if_interrupted();
    if (agreement_ && agreement_->is_over()) {
      if (is_out_of_time()) agreement_->abort(kOutOfTime);  // leaves out the evaluations that remain, but the last
      continue;
    }
    abort_if_slow_to_end();
    if (agreement_ && ending_.interrupted) continue;  // the remaining work is short
    if (ending_.interrupted && steady_seconds() - interrupted_at_ > clean_seconds_ + kWorkerPatienceSeconds) {
      ending_.abandoned = true;
      return ending_;
    }
    end_if_out_of_time(entry.has_value());
  }
}

void Coordinator::take_evaluation(const StepRecord& entry) {
  ending_.diverged_test = std::isfinite(entry.loss_sum()) || agreement_ ? 0 : entry.step;
  const EvaluationPoint point = parts_.summary.add_evaluation(entry);
  parts_.stopping.add(point);  // the workers decide alike (Run::end_if_due)
  if (!agreement_ && point.step < run_.steps) ending_.ended_early = parts_.stopping.reason();
  parts_.observer.on_evaluation(point);
  parts_.checkpoints.after_evaluation(point);
}

void Coordinator::take_step(const StepRecord& entry) {
  Summary& summary = parts_.summary;
  const std::optional<CurvePoint> point =
      summary.add_step(entry, agreement_ ? entry.samples : run_.samples_in(entry.step - 1), rate_of(entry, run_));
  if (point) {
    parts_.observer.on_step(step_report(*point, summary, run_, begun_at_, previous_, started_));
    parts_.checkpoints.after_step(*point);
    previous_ = *point;
  }
  parts_.adaptation.after_step(entry, summary.last_step_seconds());
  if (ending_.diverged_step != 0) return;
  ending_.diverged = agreement_ ? not_finite_of_replica(entry, *agreement_) : not_finite_in(entry, point->loss);
  if (ending_.diverged.empty()) return;
  ending_.diverged_step = entry.step;
  if (agreement_) run_.abort(kDiverged);
  else run_.gate.stop();
}

void Coordinator::end_if_checkpoints_fail() {
  if (parts_.checkpoints.failure().empty()) return;
  if (agreement_) run_.abort(kCheckpointFailed);
  else run_.gate.stop();
}

void Coordinator::end_if_interrupted() {
  const int ended_rank = agreement_       ? agreement_->end_requested_by()
                         : run_.process() ? run_.process()->other_end_requested()
                                          : 0;
  const bool hurries = parts_.interrupted || ended_rank != 0;
  if (ending_.interrupted) {
    if (hurries) interrupted_at_ = std::min(interrupted_at_, steady_seconds());
    return;
  }
  if (!hurries && !parts_.observer.has_enough()) return;
  ending_.interrupted = true;
  if (!parts_.interrupted) ending_.ended_rank = ended_rank;
  interrupted_at_ = hurries ? steady_seconds() : kNoHurry;
  run_.stop(kInterrupted);
}

void Coordinator::abort_if_slow_to_end() {
  if (aborted_) return;
  const double now = steady_seconds();
  const bool late = agreement_ && ending_.timed_out && now - timed_out_at_ > kCleanSecondsToResume;
  const bool slow = ending_.interrupted && now - interrupted_at_ > clean_seconds_;
  if (!late && !slow) return;
  aborted_ = true;
  run_.abort(late ? kOutOfTime : kInterrupted);
}

bool Coordinator::is_out_of_time() const {
  const double limit = run_.experiment.time_limit;
  return limit > 0 && limited_from_ > 0 && steady_seconds() - limited_from_ > limit;
}

void Coordinator::end_if_out_of_time(bool has_record) {
  if (has_record && limited_from_ == 0) limited_from_ = steady_seconds();
  if (ending_.timed_out || !is_out_of_time()) return;
  ending_.timed_out = true;
  timed_out_at_ = steady_seconds();
  run_.stop(kOutOfTime);
}

}  // namespace trireme
