#include "train/coordinate/checkpointing.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmath>
#include <utility>

#include "base/counted.h"
#include "base/seconds.h"
#include "base/text.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/resume.h"
#include "trireme/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int kWriterNiceness = 10;  // training has priority on the cores

/// Lowers the priority of the calling thread only, as Linux does for a thread id.
void lower_priority() { ::setpriority(PRIO_PROCESS, id_t(::syscall(SYS_gettid)), kWriterNiceness); }

}  // namespace

Checkpointing::Checkpointing(Run& run, const CheckpointUse& use, TrainObserver& observer, const EarlyStopping& stopping)
    : run_(run),
      folder_(use.folder),
      files_(use.files ? *use.files : real_file_system()),
      observer_(observer),
      stopping_(stopping),
      settings_(curve_settings(run.experiment, run.model, run.data, run.steps)) {
  if (!run.agreement())
    for (const char* key : {kSharesSetting, kAlphaSetting, kFeatureNoiseSetting}) settings_.erase(key);
  if (use.resumed) {
    const CheckpointIndex& index = use.resumed->index;
    if (run.experiment.early_stopping.restore_best && stopping.state().best) best_ = index.best_evaluation;
    if (index.reached && index.reached->target == run.experiment.target) reached_ = index.reached;
  }
  if (!use.data.empty()) settings_[kDataSetting] = use.data;
  if (!writes()) return;
  files_.create_folder(folder_);
  files_.sync_folder(folder_.has_parent_path() ? folder_.parent_path() : ".");
}

void Checkpointing::after_step(const CurvePoint& point) {
  if (!writes()) return;
  const bool keeps_last =
      facts_.empty() || run_.hands_over_anywhere() || run_.hands_over_after(facts_.rbegin()->first - 1);
  if (!keeps_last) facts_.erase(std::prev(facts_.end()));
  facts_[point.step] = {.point = point, .evaluation = std::nullopt, .shown = shown()};
}

void Checkpointing::after_evaluation(const EvaluationPoint& point) {
  if (run_.experiment.early_stopping.restore_best && stopping_.improved()) best_ = point;
  if (!reached_) reached_ = reached_by(point, run_.experiment.target);
  const auto facts = facts_.find(point.step);
  if (facts == facts_.end()) return;
  facts->second.evaluation = point;
  facts->second.shown = shown();
  if (point.step < run_.steps) facts->second.shown.ended = stopping_.reason();
}

/// Workers hand over their state after they have posted their outcomes, but the coordinating thread may not have read
/// these yet.
bool Checkpointing::knows_all(const GatheredState& gathered) const {
  const auto facts = facts_.find(gathered.step);
  if (run_.agreement()) return facts != facts_.end();  // evaluations come after training
  return facts != facts_.end() &&
         (facts->second.evaluation || gathered.awaits_evaluation || !run_.evaluates_after(gathered.step - 1));
}

CheckpointIndex Checkpointing::index_of(const GatheredState& gathered) const {
  const Facts& facts = facts_.at(gathered.step);
  const int64_t samples = gathered.samples > 0 ? gathered.samples : facts.point.samples;
  const int64_t of_epoch = run_.agreement() ? run_.data.train->size() : run_.sampler().samples_per_epoch();
  CheckpointIndex index{.step = gathered.step,
                        .samples = samples,
                        .epoch = double(samples) / double(of_epoch),  // as that of an evaluation
                        .seconds = facts.point.seconds,
                        .loss = facts.point.loss,
                        .seed = run_.experiment.seed,
                        .experiment = run_.experiment.name,
                        .plan = gathered.plan,
                        .best = run_.experiment.checkpoint.best,
                        .settings = settings_};
  if (facts.evaluation) {
    index.test_loss = facts.evaluation->loss;
    index.metrics = facts.evaluation->metrics;
  }
  index.awaits_evaluation = gathered.awaits_evaluation;
  const ShownByEvaluations& shown = run_.agreement() ? gathered.shown : facts.shown;
  if (run_.experiment.early_stopping.watches()) index.stopping = shown.stopping;
  index.ended = shown.ended;
  // That of the weights in the state, which has all figures unless ranks were lost while its weights were gathered.
  const std::optional<EvaluationPoint>& best = gathered.shown.best;
  index.best_evaluation = best && shown.best && shown.best->step == best->step ? shown.best : best;
  index.reached = shown.reached;
  return index;
}

void Checkpointing::poll() {
  if (!writes()) return;
  if (writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) note(writing_.get());
  if (writing_.valid()) return;
  if (!gathered_) gathered_ = run_.handover.take();
  if (gathered_ && knows_all(*gathered_)) begin_writing();
}

void Checkpointing::finish() {
  if (!writes()) return;
  poll();
  // Facts that are unknown now will never be known: the workers ended during an evaluation.
  if (!writing_.valid()) return;
  note(writing_.get());
  poll();
  if (writing_.valid()) note(writing_.get());
}

void Checkpointing::begin_writing() {
  report_.stall_seconds += gathered_->stall_seconds;
  writing_ = std::async(std::launch::async, [this, index = index_of(*gathered_)] { return write_down(index); });
  facts_.erase(facts_.begin(), facts_.upper_bound(gathered_->step - 1));
}

/// Runs on the writing thread.
Checkpointing::Outcome Checkpointing::write_down(const CheckpointIndex& index) const {
  lower_priority();
  const double began = steady_seconds();
  Outcome outcome{.index = index, .failure = {}, .untidy = {}};
  try {
    const std::string broken = std::isfinite(index.loss) ? not_finite(gathered_->state) : "the loss";
    if (broken.empty()) outcome.index = write_checkpoint(files_, folder_, index, run_.model, gathered_->state);
    else outcome.failure = broken + " is not finite";
  } catch (const std::exception& error) {
    outcome.failure = first_line(error);
  }
  try {
    if (outcome.failure.empty()) remove_old_checkpoints(files_, folder_, run_.experiment.checkpoint);
    else clean_up(files_, folder_);  // frees the space that the failed checkpoint used
  } catch (const std::exception& error) {
    outcome.untidy = first_line(error);
  }
  outcome.seconds = steady_seconds() - began;
  return outcome;
}

void Checkpointing::note(Outcome outcome) {
  run_.handover.give_back(std::move(gathered_->state));
  gathered_.reset();
  report_.write_seconds += outcome.seconds;
  std::string line;
  if (outcome.failure.empty()) {
    if (outcome.index.step != report_.newest_step) ++report_.written;  // otherwise it replaced that one
    report_.newest_step = outcome.index.step;
    report_.bytes = outcome.index.bytes();
    if (!outcome.untidy.empty()) line = "older checkpoints were not removed: " + outcome.untidy;
  } else {
    ++report_.failed;
    const bool ends = run_.experiment.checkpoint.ends_on_failure;
    line = fmt::format("the checkpoint after step {} was not written: {}; {}", outcome.index.step, outcome.failure,
                       report_.newest_step > 0 ? fmt::format("the newest one is after step {}", report_.newest_step)
                                               : "no checkpoint exists yet");
    if (ends && failure_.empty()) failure_ = line;
  }
  if (line.empty()) return;
  warnings_.push_back(line);
  observer_.on_notice(line);
}

void Checkpointing::write(RunResult& result) const {
  if (!writes()) return;
  result.checkpoints = report_;
  constexpr size_t kShown = 3;
  for (size_t w = 0; w < warnings_.size() && w < kShown; ++w) result.warnings.push_back(warnings_[w]);
  if (warnings_.size() > kShown)
    result.warnings.push_back(counted(int64_t(warnings_.size() - kShown), "more warning") + " about checkpoints");
}

}  // namespace trireme
