#include "study/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/seconds.h"
#include "base/units.h"
#include "report/quantities.h"
#include "report/verdict.h"
#include "train/compare.h"

namespace trireme {
namespace {

using nlohmann::json;
using Numbers = std::vector<std::optional<double>>;

bool is_among(const auto& list, const auto& value) {
  return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
}

/// True if the paper gives the number for this quantity of this run.
bool is_of(const PublishedNumber& number, const StudyRun& run, const std::string& quantity) {
  return number.quantity == quantity && (number.run.empty() || number.run == run.name);
}

/// The numbers that the paper gives for this quantity, by row.
Numbers published_numbers(const StudyPart& part, const std::vector<ShownRow>& shown, const std::string& quantity) {
  Numbers numbers(shown.size());
  for (const PublishedNumber& number : part.published) {
    for (size_t k = 0; k < shown.size(); ++k) {
      const RunResult& row = shown[k].result();
      if (!is_of(number, *shown[k].run, quantity) || variant_name(row) != number.strategy ||
          (number.devices != 0 && row.devices != number.devices))
        continue;
      numbers[k] = number.value;
    }
  }
  return numbers;
}

Column text_column(std::string title, const std::vector<ShownRow>& shown,
                   const std::function<std::string(const ShownRow&)>& cell, bool numeric = false) {
  Column column{std::move(title), "", numeric, {}};
  for (const ShownRow& row : shown) column.cells.push_back(cell(row));
  return column;
}

constexpr const char* kOk = "ok";
constexpr const char* kNone = "–";  // in a cell

/// Why a row did not end normally, and with which seed; "ok" if it did with each of them.
std::string status_of(const ShownRow& row) {
  const StudyRows& rows = *row.rows;
  std::string text;
  const auto add = [&](const ExperimentResult& of_seed) {
    const RunResult& result = of_seed.rows[row.row];
    if (result.status == RunStatus::ok) return;
    text += text.empty() ? "" : "; ";
    if (!rows.more_seeds.empty()) text += fmt::format("seed {}: ", of_seed.seed);
    text += fmt::format("{}: {}", name_of(result.status), result.reason);
  };
  add(rows.result);
  for (const ExperimentResult& of_seed : rows.more_seeds) add(of_seed);
  return text.empty() ? kOk : text;
}

/// "learning_rate" of "optimizer.learning_rate".
std::string last_part(const std::string& key) { return key.substr(key.rfind('.') + 1); }

bool has_several_counts(const std::vector<ShownRow>& shown) {
  return std::any_of(shown.begin(), shown.end(),
                     [&](const ShownRow& row) { return row.result().devices != shown.front().result().devices; });
}

bool has_several_runs(const std::vector<ShownRow>& shown) { return shown.front().run != shown.back().run; }

std::optional<double> number_of(const std::string& quantity, const ShownRow& row) {
  return quantity_of(quantity, *row.rows, row.row);
}

json axis_json(const std::string& quantity, const StudyRows& rows, const QuantityScale& scale) {
  return {{"title", title_of(quantity, rows)}, {"unit", scale.unit}, {"devices", quantity == "devices"}};
}

/// The scale of a quantity's largest number.
QuantityScale scale_of_all(const std::string& quantity, const std::vector<ShownRow>& shown) {
  double largest = 0;
  for (const ShownRow& row : shown) largest = std::max(largest, std::abs(number_of(quantity, row).value_or(0)));
  return scale_of(quantity, *shown.front().rows, largest);
}

json set_json(const std::string& name, const std::string& variant, int devices, json points) {
  return {{"name", name}, {"variant", variant}, {"devices", devices}, {"points", std::move(points)}};
}

/// One set per strategy, or per run where there are several.
json sets_of_rows(const StudyChart& chart, const std::vector<ShownRow>& shown, const QuantityScale& x_scale,
                  const QuantityScale& y_scale) {
  const bool of_runs = has_several_runs(shown);
  const auto set_of = [&](const ShownRow& row) { return of_runs ? row.run->title : variant_name(row.result()); };
  std::vector<std::string> names;
  for (const ShownRow& row : shown)
    if (std::find(names.begin(), names.end(), set_of(row)) == names.end()) names.push_back(set_of(row));
  json sets = json::array();
  for (const std::string& name : names) {
    json points = json::array();
    for (const ShownRow& row : shown) {
      if (set_of(row) != name) continue;
      const auto x = number_of(chart.x, row), y = number_of(chart.y, row);
      const std::string of = of_runs ? fmt::format("{}, {}", name, row_name(row.result())) : row_name(row.result());
      if (x && y) points.push_back({{"x", *x / x_scale.size}, {"y", *y / y_scale.size}, {"of", of}});
    }
    std::sort(points.begin(), points.end(), [](const json& a, const json& b) { return a["x"] < b["x"]; });
    if (!points.empty()) sets.push_back(set_json(name, name, 0, std::move(points)));
  }
  return sets;
}

/// One set per strategy of which the paper gives numbers on so many devices.
void add_published(const StudyPart& part, const StudyChart& chart, const StudyRun& run, const QuantityScale& y_scale,
                   json& sets) {
  std::map<std::string, json> points;
  for (const PublishedNumber& number : part.published)
    if (is_of(number, run, chart.y) && number.devices > 0)
      points[number.strategy].push_back(
          {{"x", number.devices}, {"y", number.value / y_scale.size}, {"of", number.strategy + ", published"}});
  for (auto& [strategy, of_strategy] : points) {
    json set = set_json(strategy + ", published", strategy, 0, std::move(of_strategy));
    set["published"] = true;
    sets.push_back(std::move(set));
  }
}

/// One set per row: its evaluations.
json progress_json(const StudyChart& chart, const std::vector<ShownRow>& shown) {
  const bool of_time = chart.x == "time", several_counts = has_several_counts(shown),
             several_runs = has_several_runs(shown);
  const StudyRows& first = *shown.front().rows;
  const QuantityScale x_scale = of_time ? scale_of_all("time", shown) : QuantityScale{},
                      y_scale = scale_of(chart.y, first, 1);
  json sets = json::array();
  for (const ShownRow& one : shown) {
    const RunResult& row = one.result();
    json points = json::array();
    for (const EvaluationPoint& point : row.evaluations) {
      const Metric* main = point.main();
      if (chart.y == "result" && !main) continue;
      const double x = of_time               ? point.seconds / x_scale.size
                       : chart.x == "epochs" ? point.epoch
                                             : double(point.samples);
      points.push_back(
          {{"x", x}, {"y", (chart.y == "result" ? main->value : point.loss) / y_scale.size}, {"of", row_name(row)}});
    }
    std::string name = several_counts ? row_name(row) : variant_name(row);
    if (several_runs) name = fmt::format("{}, {}", one.run->title, name);
    if (!points.empty())
      sets.push_back(set_json(name, several_runs ? name : variant_name(row), row.devices, std::move(points)));
  }
  return {{"x", {{"title", of_time ? "time" : chart.x}, {"unit", x_scale.unit}, {"devices", false}}},
          {"y", axis_json(chart.y, first, y_scale)},
          {"sets", std::move(sets)}};
}

/// Adds a column, unless no row has a number.
void add_column(const std::string& title, const std::string& quantity, const std::vector<ShownRow>& shown,
                const Numbers& numbers, const Numbers& spreads, std::vector<Column>& columns) {
  const auto is_known = [](const std::optional<double>& number) { return number.has_value(); };
  if (std::any_of(numbers.begin(), numbers.end(), is_known))
    columns.push_back(number_column(title, quantity, *shown.front().rows, numbers, spreads));
}

/// Adds what the rows' time costs on a machine for rent. Modelled time is not the time of such a machine.
void add_price(const std::string& quantity, const InstancePrice& price, const std::vector<ShownRow>& shown,
               std::vector<Column>& columns) {
  Numbers numbers, spreads;
  const std::string time(time_with_price(quantity));
  const double per_second = price.per_hour / kSecondsPerHour;
  const auto cost = [&](const std::optional<double>& seconds) {
    return seconds ? std::optional(*seconds * per_second) : std::nullopt;
  };
  for (const ShownRow& row : shown) {
    const bool is_real = is_in_real_time(row.result());
    numbers.push_back(is_real ? cost(number_of(time, row)) : std::nullopt);
    spreads.push_back(is_real ? cost(spread_of(time, *row.rows, row.row)) : std::nullopt);
  }
  const size_t before = columns.size();
  add_column(fmt::format("{}, {} {}", quantity, price.provider, price.name), quantity, shown, numbers, spreads,
             columns);
  if (columns.size() > before) columns.back().unit = price.currency;
}

/// Adds the quantity's columns: one, or one per price, and one with published numbers.
void add_quantity(const StudyPart& part, const std::string& quantity, const std::vector<ShownRow>& shown,
                  std::vector<Column>& columns) {
  if (!time_with_price(quantity).empty() && !part.prices.empty()) {
    for (const InstancePrice& price : part.prices) add_price(quantity, price, shown, columns);
    return;
  }
  Numbers numbers, spreads;
  for (const ShownRow& row : shown) {
    numbers.push_back(number_of(quantity, row));
    spreads.push_back(spread_of(quantity, *row.rows, row.row));
  }
  const std::string title = title_of(quantity, *shown.front().rows);
  add_column(title, quantity, shown, numbers, spreads, columns);
  add_column(title + ", published", quantity, shown, published_numbers(part, shown, quantity), {}, columns);
}

ExperimentResult result_of(const std::vector<ShownRow>& shown) {
  ExperimentResult result;
  for (const ShownRow& row : shown) result.rows.push_back(row.result());
  return result;
}

/// The row with the least `cost`; nullptr: no row has one.
const RunResult* least(const StudyRows& rows, const std::function<std::optional<double>(size_t)>& cost) {
  const RunResult* best = nullptr;
  double lowest = 0;
  for (size_t row = 0; row < rows.result.rows.size(); ++row) {
    const auto value = cost(row);
    if (!value || rows.result.rows[row].status != RunStatus::ok || (best && *value >= lowest)) continue;
    best = &rows.result.rows[row];
    lowest = *value;
  }
  return best;
}

/// Rows that correspond to each other in several runs: the k-th row of a strategy in each. A planner may use other
/// numbers of devices in each.
struct RowsOfRuns {
  explicit RowsOfRuns(const std::vector<ShownRow>& shown) : shown(shown) {
    std::map<std::pair<const StudyRun*, std::string>, int> seen;
    for (const ShownRow& row : shown) {
      const std::string variant = variant_name(row.result());
      const std::pair<std::string, int> kind{variant, seen[{row.run, variant}]++};
      kind_of.push_back(size_t(std::find(kinds.begin(), kinds.end(), kind) - kinds.begin()));
      if (kind_of.back() == kinds.size()) kinds.push_back(kind);
      if (std::find(runs.begin(), runs.end(), row.run) == runs.end()) runs.push_back(row.run);
    }
  }

  /// "8", "7 to 8"
  std::string devices_of(size_t kind) const {
    int fewest = 0, most = 0;
    for (size_t r = 0; r < shown.size(); ++r) {
      if (kind_of[r] != kind) continue;
      const int count = shown[r].result().devices;
      fewest = most == 0 ? count : std::min(fewest, count);
      most = std::max(most, count);
    }
    return fewest == most ? fmt::format("{}", most) : fmt::format("{} to {}", fewest, most);
  }

  /// The columns that name the rows of a table, whose last row is the least of each run.
  std::vector<Column> names(bool with_devices) const {
    Column strategies{"strategy", "", false, {}}, devices{"devices", "", true, {}};
    for (size_t k = 0; k < kinds.size(); ++k) {
      strategies.cells.push_back(kinds[k].first);
      devices.cells.push_back(devices_of(k));
    }
    strategies.cells.emplace_back("the least of each run");
    devices.cells.emplace_back("");
    std::vector<Column> columns{std::move(strategies)};
    if (with_devices) columns.push_back(std::move(devices));
    return columns;
  }

  const std::vector<ShownRow>& shown;
  std::vector<std::pair<std::string, int>> kinds;  ///< strategy, and its number among the rows of this strategy
  std::vector<const StudyRun*> runs;
  std::vector<size_t> kind_of = {};  ///< by shown row
};

}  // namespace

void link_bases(const std::vector<StudyRun>& runs, std::vector<StudyRunResult>& results) {
  for (size_t k = 0; k < runs.size(); ++k) {
    const auto base =
        std::find_if(runs.begin(), runs.end(), [&](const StudyRun& run) { return run.name == runs[k].base; });
    if (base != runs.end()) results[k].rows.base = &results[size_t(base - runs.begin())].rows;
  }
}

std::vector<ShownRow> shown_rows(const StudyPart& part, const StudyRun& run, const StudyRows& rows) {
  std::vector<ShownRow> shown;
  for (size_t k = 0; k < rows.result.rows.size(); ++k) {
    const RunResult& row = rows.result.rows[k];
    const bool strategy = is_among(part.strategies, variant_name(row)) || is_among(part.strategies, row.strategy);
    if (strategy && is_among(part.devices, row.devices)) shown.push_back({&run, &rows, k});
  }
  return shown;
}

std::vector<Column> part_table(const StudyPart& part, const std::vector<ShownRow>& shown) {
  if (part.table.empty() || shown.empty()) return {};
  std::vector<Column> columns;
  if (has_several_runs(shown))
    columns.push_back(text_column("run", shown, [](const ShownRow& row) { return row.run->title; }));
  columns.push_back(text_column("strategy", shown, [](const ShownRow& row) { return variant_name(row.result()); }));
  const auto has = [&](const char* name) {
    return std::find(part.table.begin(), part.table.end(), name) != part.table.end();
  };
  if (has_several_counts(shown) && !has("devices"))
    columns.push_back(text_column(
        "devices", shown, [](const ShownRow& row) { return fmt::format("{}", row.result().devices); }, true));
  const auto searched =
      std::find_if(shown.begin(), shown.end(), [](const ShownRow& row) { return !row.rows->chosen.empty(); });
  if (searched != shown.end())
    columns.push_back(
        text_column(last_part(searched->run->tuning ? searched->run->tuning->key : "chosen"), shown,
                    [](const ShownRow& row) { return row.rows->chosen.empty() ? kNone : row.rows->chosen[row.row]; }));
  for (const std::string& quantity : part.table) add_quantity(part, quantity, shown, columns);
  Column status = text_column("status", shown, status_of);
  if (std::any_of(status.cells.begin(), status.cells.end(), [](const std::string& cell) { return cell != kOk; }))
    columns.push_back(std::move(status));
  return columns;
}

std::vector<Column> part_sum(const StudyPart& part, const std::vector<ShownRow>& shown) {
  if (part.sum.empty() || shown.empty()) return {};
  const RowsOfRuns rows(shown);
  std::vector<Column> columns = rows.names(has_several_counts(shown));
  Numbers sums(rows.kinds.size() + 1, 0);
  for (const StudyRun* run : rows.runs) {
    Numbers numbers(rows.kinds.size() + 1);
    std::optional<double>& least = numbers.back();
    for (size_t r = 0; r < shown.size(); ++r) {
      if (shown[r].run != run) continue;
      const std::optional<double> number = number_of(part.sum, shown[r]);
      numbers[rows.kind_of[r]] = number;
      if (number && (!least || *number < *least)) least = number;
    }
    columns.push_back(number_column(run->title, part.sum, *shown.front().rows, numbers, {}));
    for (size_t k = 0; k < sums.size(); ++k)
      sums[k] = sums[k] && numbers[k] ? std::optional(*sums[k] + *numbers[k]) : std::nullopt;
  }
  columns.push_back(number_column("all", part.sum, *shown.front().rows, sums, {}));
  return columns;
}

std::vector<Column> part_blocks(const StudyPart& part, const std::vector<ShownRow>& shown) {
  return part.blocks ? block_columns(result_of(shown)) : std::vector<Column>();
}

json chart_json(const StudyPart& part, const StudyChart& chart, const std::vector<ShownRow>& shown) {
  json out;
  if (chart.kind == ChartKind::progress) {
    out = progress_json(chart, shown);
  } else {
    const StudyRows& first = *shown.front().rows;
    const QuantityScale x_scale = scale_of_all(chart.x, shown), y_scale = scale_of_all(chart.y, shown);
    out = {{"x", axis_json(chart.x, first, x_scale)},
           {"y", axis_json(chart.y, first, y_scale)},
           {"sets", sets_of_rows(chart, shown, x_scale, y_scale)}};
    if (chart.x == "devices" && !has_several_runs(shown))
      add_published(part, chart, *shown.front().run, y_scale, out["sets"]);
  }
  out["kind"] = chart.kind == ChartKind::points ? "points" : "lines";
  out["title"] =
      fmt::format("{} against {}", out["y"]["title"].get<std::string>(), out["x"]["title"].get<std::string>());
  return out;
}

std::vector<std::string> advice_of(const StudyRows& of_all) {
  const StudyRows rows{.result = of_all.result};
  std::vector<std::string> advice = verdict_sentences(rows.result);
  const auto number = [&](const char* name) {
    return [&rows, name](size_t row) { return quantity_of(name, rows, row); };
  };
  const auto say = [&](const char* aim, const RunResult* row, const std::string& value) {
    if (row) advice.push_back(fmt::format("{}: {}, {}.", aim, row_name(*row), value));
  };
  if (rows.result.rows.size() < 2) return advice;
  const RunResult* cheap = least(rows, number("price to target"));
  say("Cheapest to the target", cheap,
      cheap ? fmt::format("{} {}", money_text(*cheap->price_to_target), rows.result.currency) : "");
  const RunResult* small = least(rows, number("peak memory"));
  say("Least memory per device", small, small ? format_bytes(int64_t(*peak_memory(*small))) : "");
  return advice;
}

}  // namespace trireme
