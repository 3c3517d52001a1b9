// The comparison in sentences.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "base/counted.h"
#include "base/median.h"
#include "base/text.h"
#include "plan/strategies.h"
#include "report/columns.h"
#include "report/quantities.h"
#include "report/verdict.h"
#include "train/compare.h"

namespace trireme {
namespace {

/// Returns the ok row with the least `value`; null if no row has one.
const RunResult* best(const std::vector<const RunResult*>& rows, const std::function<Value(const RunResult&)>& value) {
  const RunResult* found = nullptr;
  for (const RunResult* row : rows) {
    Value v = value(*row);
    if (row->status != RunStatus::ok || !v || !std::isfinite(*v)) continue;
    if (!found || *v < *value(*found)) found = row;
  }
  return found;
}

std::string loss_text(double loss) { return std::isfinite(loss) ? fmt::format("{:.3g}", loss) : "not finite"; }

std::string what_ran(const ExperimentResult& result) {
  auto ok = std::count_if(result.rows.begin(), result.rows.end(),
                          [](const RunResult& r) { return r.status == RunStatus::ok; });
  auto runs = [](auto n) { return counted(n, "run"); };
  std::string text = result.model.empty() ? "The model" : result.model, with_batch = batch_text(result);
  if (!with_batch.empty())
    with_batch = fmt::format(" with a {}batch of {}", result.batch > 0 ? "global " : "", with_batch);
  if (!result.simulated.empty())
    return fmt::format("{} was simulated, not trained,{} on {}.", text, with_batch, result.simulated);
  text += fmt::format(" was trained on {}", result.data_source.empty() ? "the data" : result.data_source);
  text += with_batch;
  if (!result.precision.empty()) text += " in " + result.precision;
  text += fmt::format(", seed {}: {}, ", result.seed, runs(result.rows.size()));
  text += ok == static_cast<std::ptrdiff_t>(result.rows.size()) ? "all ok." : fmt::format("{} ok.", ok);
  return text;
}

/// "the target", or "a test accuracy of 98.0 %".
std::string target_in_words(const RunResult& row) {
  if (!row.target || !row.test || !row.test->main()) return "the target";
  const std::string& metric = row.test->main()->name;
  return fmt::format("a test {} of {}", kind_of_metric(metric).title, metric_text({metric, *row.target}));
}

/// "; the memory was 0.42 to 0.55 times as fast as when nothing disturbed it, which predictions do not take into
/// account"; "" where it was about as fast or that is not known.
std::string disturbed_memory(const ExperimentResult& result) {
  double least = 1, most = 0;
  for (const RunResult& row : result.rows)
    if (const std::optional<double> speed = memory_speed_of(row); speed && row.step_seconds) {
      least = std::min(least, *speed);
      most = std::max(most, *speed);
    }
  if (most == 0 || least > 1 / kOtherMemory) return "";
  const std::string range =
      most < 1.01 * least ? fmt::format("{:.2f}", least) : fmt::format("{:.2f} to {:.2f}", least, most);
  return fmt::format(
      "; the memory was {} times as fast as when nothing disturbed it, which predictions do not take into account",
      range);
}

/// "Predicted step times are within 10 % of the measured ones in 7 of 9 rows, at the speed of the cores while a row
/// ran; the median is off by 4 %."
std::string accuracy_of_predictions(const ExperimentResult& result) {
  constexpr double kNear = 0.1;
  std::vector<double> errors;
  if (result.simulated.empty())
    for (const RunResult& row : result.rows)
      if (row.predicted && row.step_seconds)
        errors.push_back(std::abs(prediction_at_core_speed(row) / *step_beside_prediction(row) - 1));
  if (errors.empty()) return "";
  const auto near = std::count_if(errors.begin(), errors.end(), [&](double e) { return e <= kNear; });
  const bool speeds = std::any_of(result.rows.begin(), result.rows.end(),
                                  [](const RunResult& row) { return core_speed_of(row).has_value(); });
  return fmt::format(
      "Predicted step times are within {:.0f} % of the measured ones in {} of {} rows{}; the median is off by {:.0f} "
      "%{}.",
      100 * kNear, near, errors.size(), speeds ? ", at the speed of the cores while a row ran" : "",
      100 * median(errors), disturbed_memory(result));
}

/// "first at the target: data on 2 devices, after 3.41 s". Rows that are too close to call and reached it after equally
/// many steps are named together.
std::string first_at_target(const std::vector<const RunResult*>& rows, const Verdict& verdict) {
  const auto seconds = [&](const RunResult& row) {
    return verdict.pace(row) && row.to_target ? Value(row.to_target->seconds) : std::nullopt;
  };
  const RunResult* first = best(rows, seconds);
  if (!first) return "";
  std::vector<const RunResult*> equal = {first};
  const auto& close = verdict.fastest;
  if (std::find(close.begin(), close.end(), first) != close.end())
    for (const RunResult* row : close)
      if (row != first && row->to_target && row->to_target->steps == first->to_target->steps) equal.push_back(row);
  return fmt::format("first at {}: {}, after {}{}", target_in_words(*first), names_of(equal),
                     equal.size() > 1 ? "about " : "", time_text(*seconds(*first)));
}

/// "best test accuracy: data on 2 devices, 93.1 % (the fastest: 91.0 %)". Under update policies rows of equal length
/// differ in what they learn, so the fastest is not always the one to take. Empty if no two rows have a metric, or
/// without replicas.
std::string best_quality(const std::vector<const RunResult*>& rows, const Verdict& verdict) {
  if (!verdict.by_epochs) return "";
  const RunResult* first = nullptr;
  size_t tested = 0;
  for (const RunResult* row : rows) {
    const Metric* metric = row->status == RunStatus::ok && row->test ? row->test->main() : nullptr;
    if (!metric || !std::isfinite(metric->value)) continue;
    ++tested;
    const bool higher = kind_of_metric(metric->name).higher_is_better;
    if (!first || (higher ? metric->value > first->test->main()->value : metric->value < first->test->main()->value))
      first = row;
  }
  if (tested < 2) return "";
  const auto text = [](const RunResult& row) { return metric_text(*row.test->main()); };
  std::string clause = fmt::format("best test {}: {}, {}", kind_of_metric(first->test->main()->name).title,
                                   row_name(*first), text(*first));
  if (verdict.fastest.size() == 1)
    if (const RunResult& fastest = *verdict.fastest.front();
        fastest.test && fastest.test->main() && text(fastest) != text(*first))
      clause += fmt::format(" (the fastest: {})", text(fastest));
  return clause;
}

/// The rows of each clock, in the order of the clocks' first rows.
std::vector<std::pair<std::string, std::vector<const RunResult*>>> by_clocks(const ExperimentResult& result) {
  std::vector<std::pair<std::string, std::vector<const RunResult*>>> clocks;
  for (const RunResult& row : result.rows) {
    const std::string clock = clock_of(row);
    auto of = std::find_if(clocks.begin(), clocks.end(), [&](const auto& c) { return c.first == clock; });
    if (of == clocks.end()) of = clocks.insert(of, {clock, {}});
    of->second.push_back(&row);
  }
  return clocks;
}

/// "data on 2 devices: 6.72 ms per step, test accuracy 98.7 %", or why the row did not end normally.
std::string headline_of_row(const ExperimentResult& result) {
  const RunResult& row = result.rows.front();
  if (row.status != RunStatus::ok) {
    std::string text =
        fmt::format("{}: {}{}", row_name(row), name_of(row.status), row.reason.empty() ? "" : ": " + row.reason);
    if (row.checkpoints && row.checkpoints->newest_step > 0)
      text += fmt::format("; the same command with --resume and this folder goes on after step {}",
                          row.checkpoints->newest_step);
    return text;
  }
  std::vector<std::string> facts;
  const std::string by = result.simulated.empty() ? by_clock(clock_of(row)) : " by prediction";
  if (row.replicas && row.epoch_seconds) facts.push_back(time_text(*row.epoch_seconds) + " per epoch" + by);
  else if (row.step_seconds) facts.push_back(time_text(row.step_seconds->median) + " per step" + by);
  if (row.test && row.test->main())
    facts.push_back(
        fmt::format("test {} {}", kind_of_metric(row.test->main()->name).title, metric_text(*row.test->main())));
  return facts.empty() ? row_name(row) : fmt::format("{}: {}", row_name(row), join(facts));
}

/// The verdict on the only row, which has no rivals: its time, what it learned, and what disturbed the measurement.
/// Empty if it did not end normally.
std::vector<std::string> sentences_of_row(const ExperimentResult& result) {
  const RunResult& row = result.rows.front();
  if (row.status != RunStatus::ok || !(row.step_seconds || row.test)) return {};
  std::string text = headline_of_row(result);
  if (row.test)
    text += fmt::format(
        "{} test loss {} {}", row.test->main() ? " and" : ",", loss_text(row.test->loss),
        row.weights_of_step ? fmt::format("with the weights of step {}", *row.weights_of_step) : "at the end");
  else if (!row.curve.empty()) text += fmt::format(", loss {} in the last step", loss_text(row.curve.back().loss));
  if (result.simulated.empty() && row.predicted && row.step_seconds && row.predicted->step_seconds > 0)
    text +=
        fmt::format("; a step takes {:.2f} times the predicted {}",
                    *step_beside_prediction(row) / row.predicted->step_seconds, time_text(row.predicted->step_seconds));
  if (row.to_target)
    text += fmt::format("; {} was reached after {}", target_in_words(row), time_text(row.to_target->seconds));
  else if (row.target && row.test) text += fmt::format("; {} was not reached", target_in_words(row));
  std::vector<std::string> sentences = {text + "."};
  if (std::string doubt = sentence_of_doubts(doubts(result)); !doubt.empty()) sentences.push_back(std::move(doubt));
  return sentences;
}

}  // namespace

std::string verdict_headline(const ExperimentResult& result) {
  if (result.rows.size() == 1) return headline_of_row(result);
  for (const auto& [clock, rows] : by_clocks(result))
    if (std::string text = headline_of(verdict_of(rows, result.simulated.empty()), clock); !text.empty()) return text;
  return "";
}

std::vector<std::string> verdict_sentences(const ExperimentResult& result) {
  if (result.rows.size() == 1) return sentences_of_row(result);
  std::vector<std::string> sentences;
  for (const auto& [clock, rows] : by_clocks(result)) {
    const Verdict verdict = verdict_of(rows, result.simulated.empty());
    VerdictClauses more;
    for (std::string clause : {first_at_target(rows, verdict), best_quality(rows, verdict)})
      if (!clause.empty()) more.results.push_back(std::move(clause));
    if (clock == ReplicaReport().clock) more.doubts = doubts(result);
    for (std::string& sentence : sentences_of(verdict, clock, more)) sentences.push_back(std::move(sentence));
  }
  return sentences;
}

std::string names_of(const std::vector<const RunResult*>& rows) {
  constexpr size_t kMostNames = 4;
  const size_t named = rows.size() > kMostNames ? kMostNames - 1 : rows.size();
  std::vector<std::string> names;  // rows of one strategy that follow each other share a name
  for (size_t i = 0, end = 0; i < named; i = end) {
    std::vector<std::string> counts;
    const std::string strategy = variant_name(*rows[i]);
    for (; end < named && variant_name(*rows[end]) == strategy; ++end)
      counts.push_back(std::to_string(rows[end]->devices));
    names.push_back(counts.size() == 1 ? row_name(*rows[i])
                                       : fmt::format("{} on {} devices", strategy, join_with_and(counts)));
  }
  if (named < rows.size()) names.push_back(fmt::format("{} more", rows.size() - named));
  return join_with_and(names);
}

std::string batch_text(const ExperimentResult& result) {
  if (result.batch > 0) return std::to_string(result.batch);
  return result.batch_per_device ? fmt::format("{} per device", *result.batch_per_device) : "";
}

bool has_own_batches(const ExperimentResult& result) {
  return std::any_of(result.rows.begin(), result.rows.end(),
                     [](const RunResult& row) { return row.batch.has_value(); });
}

std::string note_on_batches(const ExperimentResult& result) {
  if (!has_own_batches(result) || !result.batch_per_device) return "";
  std::string text = fmt::format(
      "batch: {} samples per device, so rows on different numbers of devices have different global batches: their "
      "curves differ, and their times compare by samples/s or by epochs",
      *result.batch_per_device);
  std::vector<std::string> bases;
  for (const RunResult& row : result.rows) {
    const RunResult* base = scaling_base(result, clock_of(row));
    if (!base || !row.scaling_efficiency) continue;
    if (std::string name = row_name(*base); std::find(bases.begin(), bases.end(), name) == bases.end())
      bases.push_back(std::move(name));
  }
  if (bases.empty()) return text;
  return text + fmt::format("; scaling (weak): samples/s per device, in % of those of {}", join(bases, ", "));
}

std::vector<std::string> summary(const ExperimentResult& result) {
  std::vector<std::string> sentences = {what_ran(result)};
  if (const std::string accuracy = accuracy_of_predictions(result); !accuracy.empty()) sentences.push_back(accuracy);
  if (result.generated_data && result.simulated.empty())
    sentences.emplace_back("The data are generated: accuracies say nothing about the real set.");
  for (std::string& sentence : verdict_sentences(result)) sentences.push_back(std::move(sentence));
  std::vector<const RunResult*> rows;
  for (const RunResult& row : result.rows) rows.push_back(&row);
  if (const RunResult* row = best(rows, peak_memory); row && rows.size() > 1)
    sentences.push_back(fmt::format("Least memory per device: {}, {} at its peak.", row_name(*row),
                                    in_unit(*peak_memory(*row), scale_for(kBytes, *peak_memory(*row)))));
  return sentences;
}

}  // namespace trireme
