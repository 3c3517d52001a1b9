#include "report/two_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/counted.h"
#include "base/text.h"
#include "report/quantities.h"
#include "report/verdict.h"
#include "train/compare.h"

namespace trireme {
namespace {

constexpr const char* kUnknown = "–";
constexpr size_t kMostEnds = 4;  ///< rows that are not ok, by name

/// `row`: null if the run has none.
bool is_ok(const RunResult* row) { return !row || row->status == RunStatus::ok; }

/// The rows of one name in both runs; null where a run has none.
struct Pair {
  const RunResult* a = nullptr;
  const RunResult* b = nullptr;
  const RunResult& either() const { return a ? *a : *b; }
  std::array<const RunResult*, 2> rows() const { return {a, b}; }
  /// What `text` returns of the row; "x, then y" where it differs between the runs.
  template <class Text>
  std::string named(const Text& text) const {
    const std::string first = text(either()), then = b ? text(*b) : first;
    return first == then ? first : fmt::format("{}, then {}", first, then);
  }
};

/// Rows of both runs come first. Two runs of one row each are a pair, whatever ran.
std::vector<Pair> pairs_of(const ExperimentResult& a, const ExperimentResult& b) {
  if (a.rows.size() == 1 && b.rows.size() == 1) return {{&a.rows.front(), &b.rows.front()}};
  std::vector<Pair> pairs;
  for (const RunResult& row : a.rows) pairs.push_back({&row, nullptr});
  for (const RunResult& row : b.rows) {
    const auto same = std::find_if(pairs.begin(), pairs.end(), [&](const Pair& pair) {
      return pair.a && !pair.b && row_name(*pair.a) == row_name(row);
    });
    if (same == pairs.end()) pairs.push_back({nullptr, &row});
    else same->b = &row;
  }
  std::stable_partition(pairs.begin(), pairs.end(), [](const Pair& pair) { return pair.a && pair.b; });
  return pairs;
}

/// Compares the rows of both runs by their times.
class Paces {
 public:
  Paces(const ExperimentResult& a, const ExperimentResult& b) {
    a_.measured = a.simulated.empty();
    b_.measured = b.simulated.empty();
    const auto has_replicas = [](const ExperimentResult& result) { return under_policies(result.rows); };
    const auto has_own_batches = [](const ExperimentResult& result) {
      return result.batch == 0 && result.batch_per_device;
    };
    const bool other_batches = (has_own_batches(a) || has_own_batches(b)) && batch_text(a) != batch_text(b);
    a_.by_epochs = b_.by_epochs = has_replicas(a) || has_replicas(b) || other_batches;
    if (!by_epochs() && a.batch != b.batch && a.batch > 0 && b.batch > 0) batches_ = {double(a.batch), double(b.batch)};
  }
  /// Steps of batches of different sizes are compared by the time of a sample.
  bool per_sample() const { return batches_[0] != batches_[1]; }
  bool by_epochs() const { return a_.by_epochs; }
  const char* unit() const { return by_epochs() ? "epoch" : per_sample() ? "sample" : "step"; }
  std::optional<RowPace> of_a(const RunResult* row) const { return row ? a_.pace(*row) : std::nullopt; }
  std::optional<RowPace> of_b(const RunResult* row) const { return row ? b_.pace(*row) : std::nullopt; }

  /// What a row that is not ok took for a step, or an epoch, as far as it ran. Such times are not compared.
  Value until_its_end(const RunResult* row) const {
    if (is_ok(row)) return std::nullopt;
    if (by_epochs()) return row->epoch_seconds;
    return row->step_seconds ? Value(row->step_seconds->median) : std::nullopt;
  }
  /// What the table shows of a row of the run with this number.
  Value shown(const RunResult* row, int run) const {
    const std::optional<RowPace> pace = run == 0 ? of_a(row) : of_b(row);
    return pace ? Value(pace->median) : until_its_end(row);
  }

  /// Time in A / time in B; nullopt if one is not known. `sure`: false if the times are too close to call.
  std::optional<double> speedup(const Pair& pair, bool& sure) const {
    std::optional<RowPace> a = of_a(pair.a), b = of_b(pair.b);
    if (!a || !b || !(b->median > 0)) return std::nullopt;
    for (double* time : {&a->median, &a->low, &a->high}) *time /= batches_[0];
    for (double* time : {&b->median, &b->low, &b->high}) *time /= batches_[1];
    sure = !too_close(*a, *b, a_.measured && b_.measured);
    return a->median / b->median;
  }

 private:
  Verdict a_, b_;
  std::array<double, 2> batches_ = {1, 1};
};

/// "1.25 times as fast", "12.5 times as slow"
std::string factor_text(double speedup) {
  return speedup >= 1 ? significant(speedup) + " times as fast" : significant(1 / speedup) + " times as slow";
}

/// As factor_text(), or "too close to call".
std::string speed_text(const Paces& paces, const Pair& pair) {
  bool sure = false;
  const std::optional<double> speedup = paces.speedup(pair, sure);
  if (!speedup) return kUnknown;
  if (!sure) return "too close to call";
  return factor_text(*speedup);
}

std::string quality_text(const RunResult* row) {
  if (!row || !row->test) return kUnknown;
  return row->test->main() ? metric_text(*row->test->main()) : significant(row->test->loss);
}

/// Adds a column for each run, with a unit in each cell: the runs may differ much. `value`: of a row and the number of
/// its run.
template <size_t n, class ValueOf>
void add_both(const std::vector<Pair>& pairs, const char* title, const Scale (&scales)[n], const ValueOf& value,
              std::vector<Column>& columns) {
  bool known = false;
  for (int run = 0; run < 2; ++run) {
    Column column{fmt::format("{} in {}", title, kRunNames[run]), "", true, {}};
    for (const Pair& pair : pairs) {
      const Value v = value(run == 0 ? pair.a : pair.b, run);
      column.cells.push_back(v ? in_unit(*v, scale_for(scales, *v)) : kUnknown);
      known |= v.has_value();
    }
    columns.push_back(std::move(column));
  }
  if (!known) columns.resize(columns.size() - 2);
}

/// Adds a column for each run if any row is not ok.
void add_statuses(const std::vector<Pair>& pairs, std::vector<Column>& columns) {
  const auto both_ok = [](const Pair& pair) { return is_ok(pair.a) && is_ok(pair.b); };
  if (std::all_of(pairs.begin(), pairs.end(), both_ok)) return;
  for (int run = 0; run < 2; ++run) {
    Column column{fmt::format("status in {}", kRunNames[run]), "", false, {}};
    for (const Pair& pair : pairs) {
      const RunResult* row = pair.rows()[run];
      column.cells.push_back(row ? name_of(row->status) : kUnknown);
    }
    columns.push_back(std::move(column));
  }
}

std::vector<Column> pair_columns(const std::vector<Pair>& pairs, const Paces& paces) {
  if (pairs.empty()) return {};
  std::vector<Column> columns = {{"strategy", "", false, {}}, {"devices", "", true, {}}};
  Column speed{"B against A", paces.per_sample() ? "per sample" : "", false, {}};
  for (const Pair& pair : pairs) {
    columns[0].cells.push_back(pair.named(variant_name));
    columns[1].cells.push_back(pair.named([](const RunResult& row) { return std::to_string(row.devices); }));
    speed.cells.push_back(speed_text(paces, pair));
  }
  columns.push_back(std::move(speed));
  add_statuses(pairs, columns);
  add_both(
      pairs, paces.by_epochs() ? "epoch" : "time per step", kTimes,
      [&](const RunResult* row, int run) { return paces.shown(row, run); }, columns);
  add_both(
      pairs, "peak memory", kBytes, [](const RunResult* row, int) { return row ? peak_memory(*row) : std::nullopt; },
      columns);
  const auto tested = [](const Pair& p) { return (p.a && p.a->test) || (p.b && p.b->test); };
  for (int run = 0; run < 2 && std::any_of(pairs.begin(), pairs.end(), tested); ++run) {
    Column column{fmt::format("test in {}", kRunNames[run]), "", true, {}};
    for (const Pair& pair : pairs) column.cells.push_back(quality_text(run == 0 ? pair.a : pair.b));
    columns.push_back(std::move(column));
  }
  return columns;
}

/// What a setting changes. What changes a step changes the curve too.
enum class Effect { neither, curve, step };

/// A setting that differs between the runs, with its values.
struct Difference {
  const char* name;
  Effect effect;
  std::string in_a, in_b;  ///< empty: none, or an older run.json does not say

  std::string line() const {
    const auto shown = [](const std::string& value) { return value.empty() ? "none" : value; };
    return fmt::format("{}: {} in {}, {} in {}", name, shown(in_a), kRunNames[0], shown(in_b), kRunNames[1]);
  }
};

std::vector<Difference> differences_between(const ExperimentResult& a, const ExperimentResult& b) {
  std::vector<Difference> all;
  const auto compare = [&](const char* name, Effect effect, std::string in_a, std::string in_b) {
    if (in_a != in_b) all.push_back({name, effect, std::move(in_a), std::move(in_b)});
  };
  const auto times = [](const ExperimentResult& r) {
    return r.simulated.empty() ? "of a run" : "simulated: " + r.simulated;
  };
  compare("experiment", Effect::neither, a.experiment, b.experiment);
  compare("model", Effect::step, a.model, b.model);
  // A set that is simulated without its files is described by its shape, so other words may mean the same set.
  const bool alike = a.simulated.empty() == b.simulated.empty();
  compare("data", alike ? Effect::step : Effect::curve, a.data_source, b.data_source);
  compare("precision", Effect::step, a.precision, b.precision);
  compare("batch", Effect::step, batch_text(a), batch_text(b));
  compare("seed", Effect::curve, std::to_string(a.seed), std::to_string(b.seed));
  compare("machine", Effect::neither, a.machine, b.machine);
  compare("times", Effect::neither, times(a), times(b));
  compare("initial values", Effect::curve, join(a.initial_values, "; "), join(b.initial_values, "; "));
  return all;
}

/// "model, data and batch": the names of the settings with this effect or a greater one. A setting that changes a step
/// is named only if both runs have a value for it, because older files lack some.
std::string settings_with(Effect effect, const std::vector<Difference>& differences) {
  std::vector<std::string> names;
  for (const Difference& d : differences)
    if (d.effect >= effect && (d.effect != Effect::step || (!d.in_a.empty() && !d.in_b.empty())))
      names.emplace_back(d.name);
  return join_with_and(names);
}

/// Says that the steps of the runs do not do the same, and how times are compared. Empty if they do the same.
std::vector<std::string> other_training(const ExperimentResult& a, const ExperimentResult& b, const Paces& paces,
                                        const std::string& step_settings) {
  if (step_settings.empty()) return {};
  std::vector<std::string> sentences = {
      fmt::format("A and B are not the same training: they differ in {}.", step_settings)};
  if (paces.per_sample())
    sentences.push_back(fmt::format("A step has {} in A and {} in B, so only times per sample can be compared.",
                                    counted(a.batch, "sample"), b.batch));
  if (paces.by_epochs() && a.data_source != b.data_source)
    sentences.emplace_back("An epoch need not have as many samples in A as in B.");
  return sentences;
}

/// "failed", "was interrupted"
std::string end_of(const RunResult& row) {
  const bool passive = row.status == RunStatus::skipped || row.status == RunStatus::interrupted;
  return fmt::format("{}{}", passive ? "was " : "", name_of(row.status));
}

/// "failed in A and timed out in B"; empty if no row is other than ok.
std::string ends_of(const Pair& pair) {
  if (!is_ok(pair.a) && !is_ok(pair.b) && pair.a->status == pair.b->status)
    return fmt::format("{} in {} and {}", end_of(*pair.a), kRunNames[0], kRunNames[1]);
  std::vector<std::string> ends;
  for (int run = 0; run < 2; ++run)
    if (const RunResult* row = pair.rows()[run]; !is_ok(row))
      ends.push_back(fmt::format("{} in {}", end_of(*row), kRunNames[run]));
  return join(ends, " and ");
}

/// "Not all rows are ok: data on 2 devices failed in B; ..."; empty if all are.
std::string rows_not_ok(const std::vector<Pair>& pairs) {
  std::vector<std::string> rows;
  for (const Pair& pair : pairs)
    if (const std::string ends = ends_of(pair); !ends.empty()) rows.push_back(row_name(pair.either()) + " " + ends);
  if (rows.empty()) return "";
  if (rows.size() > kMostEnds) {
    const size_t more = rows.size() - (kMostEnds - 1);
    rows.resize(kMostEnds - 1);
    rows.push_back(fmt::format("{} more", more));
  }
  return fmt::format("Not all rows are ok: {}.", join(rows, "; "));
}

/// Says why the only rows of both runs cannot be compared, and what was measured of those that are not ok.
std::vector<std::string> verdict_without_times(const Paces& paces, const Pair& pair) {
  std::vector<std::string> ends, until;
  for (int run = 0; run < 2; ++run) {
    const RunResult* row = pair.rows()[run];
    if (is_ok(row)) continue;
    ends.push_back(fmt::format("{} {}{}", kRunNames[run], end_of(*row),
                               row->reason.empty() ? "" : fmt::format(" ({})", row->reason)));
    if (const Value time = paces.until_its_end(row))
      until.push_back(fmt::format("Until then {} of {} took {}.", paces.by_epochs() ? "an epoch" : "a step",
                                  kRunNames[run], time_text(*time)));
  }
  const std::string why = ends.empty() ? "" : join(ends, " and ") + ", so ";
  until.insert(until.begin(),
               fmt::format("{}: {}the runs have no times that can be compared.", pair.named(row_name), why));
  return until;
}

/// The verdict where each run has one row: "data on 2 devices, then tensor on 2 devices: B is 1.25 times as fast as A."
/// `per`: " per step", " per sample" or " per epoch" if the runs are not the same training, else "".
std::vector<std::string> verdict_of_one(const Paces& paces, const Pair& pair, const std::string& per) {
  bool sure = false;
  if (!paces.speedup(pair, sure)) return verdict_without_times(paces, pair);
  const std::string rows = pair.named(row_name);
  if (!sure) return {rows + ": A and B are too close to call."};
  return {fmt::format("{}: B is {}{} as A.", rows, speed_text(paces, pair), per)};
}

/// The verdict on all rows; `per` as in verdict_of_one().
std::vector<std::string> pair_verdict(const std::vector<Pair>& pairs, const Paces& paces, const std::string& per) {
  if (pairs.size() == 1 && pairs[0].a && pairs[0].b) return verdict_of_one(paces, pairs[0], per);
  std::array<int64_t, 3> counts{};  // faster, slower, too close
  int64_t both = 0;
  double most = 0, at_most = 1;
  const Pair* greatest = nullptr;
  for (const Pair& pair : pairs) {
    if (!pair.a || !pair.b) continue;
    ++both;
    bool sure = false;
    const std::optional<double> speedup = paces.speedup(pair, sure);
    if (!speedup) continue;
    ++counts[!sure ? 2 : *speedup >= 1 ? 0 : 1];
    const double factor = std::max(*speedup, 1 / *speedup);
    if (!sure || factor <= most) continue;
    most = factor;
    at_most = *speedup;
    greatest = &pair;
  }
  if (both == 0) return {"The runs have no row in common."};
  if (counts[0] + counts[1] + counts[2] == 0)
    return {fmt::format("The runs have {} in common, without times that can be compared.", counted(both, "row"))};
  std::vector<std::string> sentences = {
      fmt::format("Of {} in common B is faster{} in {}, slower in {}, and {} too close to call.", counted(both, "row"),
                  per, counts[0], counts[1], counts[2] == 1 ? "1 is" : fmt::format("{} are", counts[2]))};
  if (const int64_t others = both - counts[0] - counts[1] - counts[2]; others > 0)
    sentences.push_back(
        fmt::format("{} no times that can be compared.", others == 1 ? "The other has" : "The others have"));
  if (greatest)
    sentences.push_back(
        fmt::format("The greatest difference: {}, {}{} in B.", row_name(*greatest->a), factor_text(at_most), per));
  return sentences;
}

/// Returns the sentences in this order: other_training(), which run is faster, which rows are not ok.
std::vector<std::string> whole_verdict(const ExperimentResult& a, const ExperimentResult& b,
                                       const std::vector<Pair>& pairs, const std::string& step_settings) {
  const Paces paces(a, b);
  std::vector<std::string> verdict = other_training(a, b, paces, step_settings);
  const std::string per = step_settings.empty() ? "" : fmt::format(" per {}", paces.unit());
  for (std::string& sentence : pair_verdict(pairs, paces, per)) verdict.push_back(std::move(sentence));
  const bool of_one = pairs.size() == 1 && pairs[0].a && pairs[0].b;  // verdict_of_one() has said it
  if (std::string not_ok = of_one ? "" : rows_not_ok(pairs); !not_ok.empty()) verdict.push_back(std::move(not_ok));
  bool sure = false;
  const auto compared = [&](const Pair& pair) { return paces.speedup(pair, sure).has_value(); };
  if (a.simulated.empty() != b.simulated.empty() && std::any_of(pairs.begin(), pairs.end(), compared))
    verdict.push_back(fmt::format(
        "{} was measured and {} was simulated, so a difference below {:.0f} % may be the error of the "
        "prediction.",
        kRunNames[a.simulated.empty() ? 0 : 1], kRunNames[a.simulated.empty() ? 1 : 0], 100 * kPredictionError));
  return verdict;
}

}  // namespace

RunChanges changes_between(const ExperimentResult& a, const ExperimentResult& b) {
  const std::vector<Pair> pairs = pairs_of(a, b);
  const std::vector<Difference> differences = differences_between(a, b);
  RunChanges changes;
  changes.verdict = whole_verdict(a, b, pairs, settings_with(Effect::step, differences));
  for (const Difference& difference : differences) changes.settings.push_back(difference.line());
  changes.curve_settings = settings_with(Effect::curve, differences);
  changes.columns = pair_columns(pairs, Paces(a, b));
  return changes;
}

}  // namespace trireme
