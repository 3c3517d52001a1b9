#include "metrics/early_stopping.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/counted.h"
#include "base/text.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr const char* kLoss = "loss";

std::optional<double> value_in(const EvaluationPoint& point, const std::string& measure) {
  const Metric* metric = find_metric(point.metrics, measure);
  if (measure != kLoss && !metric) return std::nullopt;
  const double value = metric ? metric->value : point.loss;
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

}  // namespace

EarlyStoppingSpec read_early_stopping(const ConfigTable& table) {
  EarlyStoppingSpec spec;
  spec.restore_best = table.get_bool("restore_best", false);
  spec.measure = table.get_string("measure", "");
  if (!table.has("patience")) {
    if ((!table.keys().empty() && !spec.restore_best) || table.has("min_delta"))
      table.fail("patience", "is missing", "say how many evaluations without improvement end the run: patience = 3");
    if (spec.restore_best) spec.where = table.where("restore_best");
    return spec;
  }
  spec.where = table.where("patience");
  spec.patience = table.get_int("patience", 0, 1);
  spec.min_delta = table.get_double("min_delta", 0, 0);
  if (!std::isfinite(spec.min_delta))
    table.fail("min_delta", "must be finite", "write 0.001 for an accuracy that rises by more than 0.1 %");
  return spec;
}

void check_early_stopping(const EarlyStoppingSpec& spec, LearningTask task, int64_t classes) {
  if (spec.measure.empty() || (spec.patience == 0 && !spec.restore_best)) return;
  std::vector<std::string> names = metric_names(task, classes);
  names.insert(names.begin(), kLoss);
  if (std::find(names.begin(), names.end(), spec.measure) == names.end())
    fail_user({.where = spec.where,
               .what = fmt::format("measure = {}", spec.measure),
               .why = fmt::format("evaluations of {} do not measure it", name_of(task)),
               .next = fmt::format("use one of {}", join(names))});
}

std::optional<TargetReached> reached_by(const EvaluationPoint& point, std::optional<double> target) {
  // A model whose loss is not finite has not reached the target, whatever its metrics are.
  const Metric* const main = point.main();
  if (!target || !main || !std::isfinite(point.loss) || !reaches(*main, *target)) return std::nullopt;
  return TargetReached{*target, {point.step, point.epoch, point.seconds}};
}

EarlyStopping::EarlyStopping(const EarlyStoppingSpec& spec, LearningTask task, std::optional<double> target,
                             const StoppingState& begun)
    : spec_(spec), target_(spec.at_target ? target : std::nullopt) {
  state_.measure = spec.measure.empty() ? main_metric(task) : spec.measure;
  if (begun.measure == state_.measure) state_ = begun;
}

void EarlyStopping::add(const EvaluationPoint& point) {
  const std::optional<double> value = value_in(point, state_.measure);
  const bool rises = state_.measure != kLoss && kind_of_metric(state_.measure).higher_is_better;
  const bool improves =
      value && (!state_.best || (rises ? *value - *state_.best : *state_.best - *value) > spec_.min_delta);
  ++state_.without_improvement;
  if (improves) {
    state_.best = value;
    state_.best_step = point.step;
    state_.without_improvement = 0;
  }
  compare_with_target(point);
}

void EarlyStopping::compare_with_target(const EvaluationPoint& point) {
  const Metric* const main = point.main();
  reached_ =
      reached_by(point, target_) ? fmt::format("{} {}", kind_of_metric(main->name).title, metric_text(*main)) : "";
}

std::string EarlyStopping::reason() const {
  if (!reached_.empty()) return fmt::format("the target is reached: test {}", reached_);
  if (spec_.patience == 0 || state_.without_improvement < spec_.patience) return "";
  const bool is_loss = state_.measure == kLoss;
  const std::string title = is_loss ? kLoss : kind_of_metric(state_.measure).title,
                    evaluations = counted(state_.without_improvement, "evaluation");
  if (!state_.best) return fmt::format("no finite test {} in {}", title, evaluations);
  const std::string best = is_loss ? fmt::format("{:.4g}", *state_.best) : metric_text({state_.measure, *state_.best});
  const std::string least = spec_.min_delta > 0 ? fmt::format(" (by more than {})", spec_.min_delta) : "";
  return fmt::format("no better test {} in {}{}; the best, {}, was after step {}", title, evaluations, least, best,
                     state_.best_step);
}

}  // namespace trireme
