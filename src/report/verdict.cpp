#include "report/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

#include "base/counted.h"
#include "plan/strategies.h"
#include "report/columns.h"
#include "report/quantities.h"
#include "train/compare.h"

namespace trireme {
namespace {

constexpr const char* kMeasureAgainIdle = "measure again on an idle machine, and trust what both runs show";

/// Returns true if the row's times can be compared with those of others.
bool is_fair(const RunResult& row) { return row.status == RunStatus::ok && !row.oversubscribed; }

/// Returns true if a step of one row has more samples than that of another, as when each worker has a batch of its own.
/// The numbers of a resumed row are means that contain the shorter last batches of epochs, so they differ a little.
bool differ_in_batch(const std::vector<const RunResult*>& rows) {
  constexpr double kSame = 1.2;
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const RunResult* row : rows) {
    const Value samples = is_fair(*row) ? samples_per_step(*row) : std::nullopt;
    if (!samples) continue;
    least = std::min(least, *samples);
    most = std::max(most, *samples);
  }
  return most > kSame * least;
}

int64_t steps_of(const RunResult& row) { return row.curve.empty() ? 0 : row.curve.back().step; }

/// False for 0 steps, which means that their number is not known.
bool are_few(int64_t steps) { return steps > 0 && steps < kFewSteps; }

/// A greater length does not give such a row more steps.
bool has_ended_early(const RunResult* row) { return !row->ended_early.empty(); }

/// "measure again with more steps (--steps 1600) or with rows that take turns (--repeat 4) on an idle machine, ..."
std::string measure_again(const std::vector<const RunResult*>& rows) {
  int64_t steps = kFewSteps, runs = 1;
  for (const RunResult* row : rows) {
    steps = std::max(steps, steps_of(*row));
    runs = std::max(runs, int64_t(row->repeats.size()));
  }
  const bool replicas =
      std::any_of(rows.begin(), rows.end(), [](const RunResult* row) { return row->replicas.has_value(); });
  std::string longer = replicas ? "a greater length or with "  // policies may refuse --steps
                                : fmt::format("more steps (--steps {}) or with ", kMoreSteps * steps);
  if (std::any_of(rows.begin(), rows.end(), has_ended_early)) longer.clear();
  return fmt::format(
      "measure again with {}rows that take turns (--repeat {}) on an idle machine, and trust an order that does not "
      "change",
      longer, kMoreSteps * runs);
}

std::string which(const Verdict& verdict, const std::string& by) {
  const RunResult& first = *verdict.fastest.front();
  const double pace = verdict.pace(first)->median;
  const char* unit = verdict.by_epochs ? "epoch" : "step";
  if (verdict.fastest.size() == 1)
    return fmt::format("Fastest{}: {}, {} per {}", by, row_name(first), time_text(pace), unit);
  const RowPace slowest = *verdict.pace(*verdict.fastest.back());
  if (slowest.low == slowest.high && slowest.median <= pace * (1 + kEqual))
    return fmt::format("Equally fast{}: {}, {} per {}", by, names_of(verdict.fastest), time_text(pace), unit);
  return fmt::format("Too close to call{}: {}, {} to {} per {}", by, names_of(verdict.fastest), time_text(pace),
                     time_text(slowest.median), unit);
}

/// ", 1.88 times as fast as one device and 1.36 times as fast as the next, tensor on 2 devices"
std::string by_how_much(const Verdict& verdict) {
  const double pace = verdict.pace(*verdict.fastest.back())->median;
  if (!(pace > 0)) return "";
  const char* least = verdict.fastest.size() > 1 ? "at least " : "";
  std::string text;
  const auto is_fastest = [&](const RunResult* row) {
    return std::find(verdict.fastest.begin(), verdict.fastest.end(), row) != verdict.fastest.end();
  };
  if (verdict.single && !is_fastest(verdict.single))
    text = fmt::format(", {}{:.2f} times as fast as one device", least, verdict.pace(*verdict.single)->median / pace);
  if (!verdict.next || verdict.next == verdict.single) return text;
  // If several rows are too close to call, and the interval of the next row overlaps theirs, a factor would promise too
  // much.
  const bool lie_apart = verdict.pace(*verdict.fastest.front())->high < verdict.pace(*verdict.next)->low;
  // For predictions, a lead within their usual error does not count.
  const bool leads = verdict.pace(*verdict.next)->median > pace * (1 + kPredictionError);
  if (verdict.fastest.size() == 1 || (verdict.measured ? lie_apart : leads))
    text += fmt::format("{} {}{:.2f} times as fast as the next, {}", text.empty() ? "," : " and", least,
                        verdict.pace(*verdict.next)->median / pace, row_name(*verdict.next));
  return text;
}

bool has_spread(const RowPace& pace) { return pace.low < pace.high; }

/// "10th to 90th percentile, and between runs": where the spread of the rows' times comes from.
std::string range_of(const Verdict& verdict) {
  const auto is_repeated = [](const RunResult* row) { return !row->repeats.empty(); };
  const bool repeated = std::any_of(verdict.fastest.begin(), verdict.fastest.end(), is_repeated);
  return repeated ? "10th to 90th percentile, and between runs" : "10th to 90th percentile";
}

/// States why measured rows are too close to call. `times`: "steps" or "epochs".
std::string why_too_close(const Verdict& verdict, const char* times) {
  std::vector<const RunResult*> without;
  for (const RunResult* row : verdict.fastest)
    if (!has_spread(*verdict.pace(*row))) without.push_back(row);
  if (without.empty())
    return fmt::format("their {} overlap by more than {:.0f} % ({})", times, 100 * kWideOverlap, range_of(verdict));
  const bool one = without.size() == 1;
  return fmt::format(
      "{} ran once (no spread is known), and {} within the other rows' {} ({}) or less than {:.1f} % outside",
      names_of(without), one ? "its time lies" : "their times lie", times, range_of(verdict), 100 * kEqual);
}

/// States by how much the fastest measured row is ahead of the next one.
std::string why_ahead(const Verdict& verdict, const char* times) {
  const RowPace first = *verdict.pace(*verdict.fastest.front()), next = *verdict.pace(*verdict.next);
  const std::string name = row_name(*verdict.next);
  if (!has_spread(first))
    return fmt::format("it ran once (no spread is known), and its time is less than the {} of {} ({})", times, name,
                       range_of(verdict));
  if (!has_spread(next))
    return fmt::format("its {} ({}) take less than the time of {}, which ran once (no spread is known)", times,
                       range_of(verdict), name);
  const std::string apart =
      first.high < next.low ? "lie apart" : fmt::format("overlap by less than {:.0f} %", 100 * kWideOverlap);
  return fmt::format("its {} and those of {} {} ({})", times, name, apart, range_of(verdict));
}

/// States how sure predictions are, and what can decide. Empty if there is nothing to decide.
std::string how_to_decide(const Verdict& verdict) {
  const double pace = verdict.pace(*verdict.fastest.front())->median;
  if (verdict.pace(*verdict.fastest.back())->median > pace * (1 + kEqual))
    return fmt::format(
        "Predictions are usually off by up to {:.0f} %, so they cannot order these plans; trireme compare on these "
        "devices measures them.",
        100 * kPredictionError);
  if (!verdict.next) return "";
  return fmt::format(
      "The next is further behind than predictions are usually off ({:.0f} %); trireme compare on these devices "
      "measures it.",
      100 * kPredictionError);
}

/// "a, b, and c"
std::string listed(const std::vector<std::string>& clauses) {
  std::string text;
  for (size_t i = 0; i < clauses.size(); ++i)
    text += (i == 0 ? "" : i + 1 < clauses.size() ? ", " : ", and ") + clauses[i];
  return text;
}

/// What speaks for the order of the rows and against it, as clauses, and what to do in doubt.
struct Evidence {
  std::string for_it;
  std::vector<std::string> doubts;
  std::string advice = kMeasureAgainIdle;
};

/// Compares the fastest measured rows with each other, or the fastest with the next.
Evidence evidence_of(const Verdict& verdict, const std::vector<const RunResult*>& decisive) {
  Evidence evidence;
  const RowPace first = *verdict.pace(*decisive.front()), last = *verdict.pace(*decisive.back());
  if (decisive.size() < 2 || !is_in_real_time(*decisive.front())) return evidence;
  if (!has_spread(first) && !has_spread(last)) {
    evidence.doubts.emplace_back("each row ran once, so no spread is known");
    evidence.advice = measure_again(decisive);
    return evidence;
  }
  const char* times = verdict.by_epochs ? "epochs" : "steps";
  int64_t steps = steps_of(*decisive.front());
  for (const RunResult* row : decisive) steps = std::min(steps, steps_of(*row));
  if (first.median < verdict.pace(*verdict.fastest.back())->median)
    evidence.doubts.push_back(why_too_close(verdict, times));
  else if (are_few(steps))
    evidence.doubts.push_back(fmt::format("a row has only {}, too few for a firm result", counted(steps, "step")));
  else if (verdict.next) evidence.for_it = why_ahead(verdict, times);
  if (!evidence.doubts.empty()) evidence.advice = measure_again(decisive);
  return evidence;
}

/// States in one sentence how sure the order of the rows is, and what would change it. All doubts share one advice.
/// Empty if there is no order, or no interval, and no doubt.
std::string how_sure(const Verdict& verdict, const std::vector<std::string>& disturbances) {
  if (!verdict.measured) return how_to_decide(verdict);
  std::vector<const RunResult*> decisive = verdict.fastest;
  if (verdict.next) decisive.push_back(verdict.next);
  Evidence evidence = evidence_of(verdict, decisive);
  evidence.doubts.insert(evidence.doubts.end(), disturbances.begin(), disturbances.end());
  if (!evidence.doubts.empty())
    return fmt::format("The {} not sure: {}; {}.", decisive.size() > 1 ? "order is" : "time is",
                       listed(evidence.doubts), evidence.advice);
  if (evidence.for_it.empty()) return "";
  return fmt::format(
      "The order holds on this machine, because {}; another batch, model or number of devices may change it.",
      evidence.for_it);
}

std::string some_or_all(const std::vector<const RunResult*>& rows, const std::vector<const RunResult*>& all) {
  return rows.size() > 1 && rows.size() == all.size() ? "all rows" : names_of(rows);
}

/// Empty if no row's steps vary a lot.
std::string scatter_clause(const std::vector<const RunResult*>& rows) {
  std::vector<const RunResult*> scattered;
  double most = 0;
  for (const RunResult* row : rows) {
    if (row->replicas || !row->step_seconds || !(row->step_seconds->p10 > 0)) continue;  // replicas wait in some steps
    const double scatter = row->step_seconds->p90 / row->step_seconds->p10;
    if (!(scatter > kScatter)) continue;
    scattered.push_back(row);
    most = std::max(most, scatter);
  }
  if (scattered.empty()) return "";
  return fmt::format(
      "steps vary because of other programs or samples of unequal length ({}: the 90th percentile is up to {:.1f} "
      "times "
      "the 10th)",
      some_or_all(scattered, rows), most);
}

/// `what` has a speed in each row. Empty if that was about the same in all rows, or if it is not known.
std::string speed_clause(const char* what, std::optional<double> (*speed_of)(const RunResult&), double most,
                         const std::vector<const RunResult*>& rows) {
  const RunResult *slowest = nullptr, *fastest = nullptr;
  for (const RunResult* row : rows) {
    const std::optional<double> speed = speed_of(*row);
    if (!speed) continue;
    if (!slowest || *speed < *speed_of(*slowest)) slowest = row;
    if (!fastest || *speed > *speed_of(*fastest)) fastest = row;
  }
  if (!slowest) return "";
  const double ratio = *speed_of(*fastest) / *speed_of(*slowest);
  if (!(ratio > most)) return "";
  return fmt::format("{} {:.2f} times as fast during {} as during {}", what, ratio, row_name(*fastest),
                     row_name(*slowest));
}

std::string prediction_clause(const std::vector<const RunResult*>& rows) {
  std::vector<const RunResult*> far;
  double most = 0;
  for (const RunResult* row : rows) {
    if (!row->predicted || !row->step_seconds || !(row->predicted->step_seconds > 0)) continue;
    const double ratio = *step_beside_prediction(*row) / prediction_at_core_speed(*row);
    const double factor = std::max(ratio, 1 / ratio);
    if (!(factor > kFarOff) || !std::isfinite(factor)) continue;
    far.push_back(row);
    most = std::max(most, factor);
  }
  if (far.empty()) return "";
  return fmt::format(
      "predicted and measured steps differ by a factor of up to {:.1f} ({}), because the machine was busy or the "
      "predictions do not hold here",
      most, some_or_all(far, rows));
}

}  // namespace

std::string by_clock(const std::string& clock) {
  return clock == ReplicaReport().clock ? "" : fmt::format(" by the {} clock", clock);
}

std::optional<RowPace> Verdict::pace(const RunResult& row) const {
  const std::optional<double> median = by_epochs          ? row.epoch_seconds
                                       : row.step_seconds ? Value(row.step_seconds->median)
                                                          : std::nullopt;
  if (!is_fair(row) || !median || !std::isfinite(*median)) return std::nullopt;
  RowPace pace{*median, *median, *median};
  // Modelled and simulated times have no spread, because a second run takes the same time. The steps of replicas differ
  // because only some of them exchange; this is not the spread of epochs.
  if (measured && is_in_real_time(row) && !row.replicas && row.step_seconds && row.step_seconds->median > 0) {
    pace.low *= row.step_seconds->p10 / row.step_seconds->median;
    pace.high *= row.step_seconds->p90 / row.step_seconds->median;
  }
  if (measured && is_in_real_time(row))
    for (const RepeatReport& run : row.repeats) {
      const double seconds = by_epochs ? run.epoch_seconds : run.step_seconds.median;
      pace.low = std::min(pace.low, seconds);
      pace.high = std::max(pace.high, seconds);
    }
  return pace;
}

bool overlap_widely(const RowPace& a, const RowPace& b) {
  const double shorter = std::min(a.high - a.low, b.high - b.low);
  const double overlap = std::min(a.high, b.high) - std::max(a.low, b.low);
  return shorter > 0 ? overlap > kWideOverlap * shorter : overlap >= -kEqual * std::min(a.median, b.median);
}

bool too_close(const RowPace& a, const RowPace& b, bool measured) {
  if (measured) return overlap_widely(a, b);
  return std::max(a.median, b.median) <= std::min(a.median, b.median) * (1 + kPredictionError);
}

Verdict verdict_of(const std::vector<const RunResult*>& rows, bool measured) {
  Verdict verdict;
  verdict.measured = measured;
  verdict.by_epochs = differ_in_batch(rows) || std::any_of(rows.begin(), rows.end(), [](const RunResult* row) {
                        return row->replicas.has_value();
                      });
  std::vector<const RunResult*> timed;
  for (const RunResult* row : rows) {
    if (!verdict.pace(*row)) continue;
    timed.push_back(row);
    if (!verdict.single && row->devices == 1 && is_single(row->strategy)) verdict.single = row;
  }
  std::stable_sort(timed.begin(), timed.end(), [&](const RunResult* a, const RunResult* b) {
    return verdict.pace(*a)->median < verdict.pace(*b)->median;
  });
  // The fastest rows end with the first that is clearly slower: a slow row whose steps scatter is not one of them.
  for (const RunResult* row : timed) {
    if (row != timed.front() && !too_close(*verdict.pace(*timed.front()), *verdict.pace(*row), measured)) {
      verdict.next = row;
      break;
    }
    verdict.fastest.push_back(row);
  }
  return verdict;
}

std::string headline_of(const Verdict& verdict, const std::string& clock) {
  return verdict.fastest.empty() ? "" : which(verdict, by_clock(clock));
}

std::vector<std::string> sentences_of(const Verdict& verdict, const std::string& clock, const VerdictClauses& more) {
  std::string first = headline_of(verdict, clock);
  if (!first.empty()) first += by_how_much(verdict);
  for (const std::string& result : more.results) first += (first.empty() ? "" : "; ") + result;
  if (first.empty()) return {};
  first.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(first.front())));
  std::vector<std::string> sentences = {first + "."};
  if (verdict.fastest.empty()) return sentences;
  if (std::string sure = how_sure(verdict, more.doubts); !sure.empty()) sentences.push_back(std::move(sure));
  return sentences;
}

std::vector<std::string> doubts(const ExperimentResult& result) {
  std::vector<std::string> clauses;
  if (!result.simulated.empty()) return clauses;
  std::vector<const RunResult*> rows;
  for (const RunResult& row : result.rows)
    if (is_fair(row) && is_in_real_time(row)) rows.push_back(&row);
  std::string few;  // of several rows evidence_of() says it
  if (const int64_t steps = rows.size() == 1 ? steps_of(*rows.front()) : 0; are_few(steps)) {
    const bool helps = !rows.front()->replicas && !has_ended_early(rows.front());
    const std::string longer = helps ? fmt::format(" (--steps {} or more)", kFewSteps) : "";
    few = fmt::format("{} {} too few for a firm result{}", counted(steps, "step"), steps == 1 ? "is" : "are", longer);
  }
  for (std::string clause :
       {few, scatter_clause(rows), speed_clause("the cores were", core_speed_of, kOtherSpeed, rows),
        speed_clause("the memory was", memory_speed_of, kOtherMemory, rows), prediction_clause(rows)})
    if (!clause.empty()) clauses.push_back(std::move(clause));
  return clauses;
}

std::string sentence_of_doubts(const std::vector<std::string>& doubts) {
  return doubts.empty() ? "" : fmt::format("The time is not sure: {}; {}.", listed(doubts), kMeasureAgainIdle);
}

}  // namespace trireme
