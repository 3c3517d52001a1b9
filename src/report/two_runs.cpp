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

/// The rows of one name in both runs; null where a run has none.
struct Pair {
  const RunResult* a = nullptr;
  const RunResult* b = nullptr;
  const RunResult& either() const { return a ? *a : *b; }
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
    a_.by_epochs = b_.by_epochs = has_replicas(a) || has_replicas(b);
    if (!by_epochs() && a.batch != b.batch && a.batch > 0 && b.batch > 0) batches_ = {double(a.batch), double(b.batch)};
  }
  /// Steps of batches of different sizes are compared by the time of a sample.
  bool per_sample() const { return batches_[0] != batches_[1]; }
  bool by_epochs() const { return a_.by_epochs; }
  std::optional<RowPace> of_a(const RunResult* row) const { return row ? a_.pace(*row) : std::nullopt; }
  std::optional<RowPace> of_b(const RunResult* row) const { return row ? b_.pace(*row) : std::nullopt; }

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

/// "1.25 times as fast", "1.10 times as slow", "too close to call"
std::string speed_text(const Paces& paces, const Pair& pair) {
  bool sure = false;
  const std::optional<double> speedup = paces.speedup(pair, sure);
  if (!speedup) return kUnknown;
  if (!sure) return "too close to call";
  return *speedup >= 1 ? fmt::format("{:.2f} times as fast", *speedup)
                       : fmt::format("{:.2f} times as slow", 1 / *speedup);
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
  add_both(
      pairs, paces.by_epochs() ? "epoch" : "time per step", kTimes,
      [&](const RunResult* row, int run) {
        const std::optional<RowPace> pace = run == 0 ? paces.of_a(row) : paces.of_b(row);
        return pace ? Value(pace->median) : std::nullopt;
      },
      columns);
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

std::vector<std::string> settings_of(const ExperimentResult& a, const ExperimentResult& b) {
  std::vector<std::string> lines;
  const auto compare = [&](const char* name, const std::string& in_a, const std::string& in_b) {
    const auto shown = [](const std::string& value) { return value.empty() ? "none" : value; };
    if (in_a != in_b)
      lines.push_back(
          fmt::format("{}: {} in {}, {} in {}", name, shown(in_a), kRunNames[0], shown(in_b), kRunNames[1]));
  };
  const auto times = [](const ExperimentResult& r) {
    return r.simulated.empty() ? "of a run" : "simulated: " + r.simulated;
  };
  compare("experiment", a.experiment, b.experiment);
  compare("model", a.model, b.model);
  compare("data", a.data_source, b.data_source);
  compare("precision", a.precision, b.precision);
  compare("batch", std::to_string(a.batch), std::to_string(b.batch));
  compare("seed", std::to_string(a.seed), std::to_string(b.seed));
  compare("machine", a.machine, b.machine);
  compare("times", times(a), times(b));
  compare("initial values", join(a.initial_values, "; "), join(b.initial_values, "; "));
  return lines;
}

/// "data on 2 devices, then tensor on 2 devices: B is 1.25 times as fast as A." Of the only row of each run.
std::string verdict_of_one(const Paces& paces, const Pair& pair) {
  const std::string rows = pair.named(row_name);
  bool sure = false;
  if (!paces.speedup(pair, sure)) return rows + ": the runs have no times that can be compared.";
  if (!sure) return rows + ": A and B are too close to call.";
  return fmt::format("{}: B is {} as A.", rows, speed_text(paces, pair));
}

std::vector<std::string> pair_verdict(const std::vector<Pair>& pairs, const Paces& paces) {
  if (pairs.size() == 1 && pairs[0].a && pairs[0].b) return {verdict_of_one(paces, pairs[0])};
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
      fmt::format("Of {} in common B is faster in {}, slower in {}, and {} too close to call.", counted(both, "row"),
                  counts[0], counts[1], counts[2] == 1 ? "1 is" : fmt::format("{} are", counts[2]))};
  if (const int64_t others = both - counts[0] - counts[1] - counts[2]; others > 0)
    sentences.push_back(
        fmt::format("{} no times that can be compared.", others == 1 ? "The other has" : "The others have"));
  if (greatest)
    sentences.push_back(fmt::format("The greatest difference: {}, {:.2f} times as {} in B.", row_name(*greatest->a),
                                    most, at_most >= 1 ? "fast" : "slow"));
  return sentences;
}

}  // namespace

RunChanges changes_between(const ExperimentResult& a, const ExperimentResult& b) {
  const std::vector<Pair> pairs = pairs_of(a, b);
  const Paces paces(a, b);
  RunChanges changes{pair_verdict(pairs, paces), settings_of(a, b), pair_columns(pairs, paces)};
  bool sure = false;
  const auto compared = [&](const Pair& pair) { return paces.speedup(pair, sure).has_value(); };
  if (a.simulated.empty() != b.simulated.empty() && std::any_of(pairs.begin(), pairs.end(), compared))
    changes.verdict.push_back(fmt::format(
        "{} was measured and {} was simulated, so a difference below {:.0f} % may be the error of the "
        "prediction.",
        kRunNames[a.simulated.empty() ? 0 : 1], kRunNames[a.simulated.empty() ? 1 : 0], 100 * kPredictionError));
  return changes;
}

}  // namespace trireme
