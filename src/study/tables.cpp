#include "study/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/units.h"
#include "report/quantities.h"
#include "report/verdict.h"

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

/// The numbers that the paper gives for this quantity, by row; empty: none.
Numbers published_numbers(const StudyPart& part, const StudyRun& run, const StudyRows& rows,
                          const std::vector<size_t>& shown, const std::string& quantity) {
  Numbers numbers(shown.size());
  bool any = false;
  for (const PublishedNumber& number : part.published) {
    if (!is_of(number, run, quantity)) continue;
    for (size_t k = 0; k < shown.size(); ++k) {
      const RunResult& row = rows.result.rows[shown[k]];
      if (variant_name(row) != number.strategy || (number.devices != 0 && row.devices != number.devices)) continue;
      numbers[k] = number.value;
      any = true;
    }
  }
  return any ? numbers : Numbers{};
}

Column text_column(std::string title, const StudyRows& rows, const std::vector<size_t>& shown,
                   const std::function<std::string(size_t)>& cell, bool numeric = false) {
  Column column{std::move(title), "", numeric, {}};
  for (const size_t row : shown) column.cells.push_back(cell(row));
  return column;
}

constexpr const char* kOk = "ok";

/// Why a row did not end normally, and with which seed; "ok" if it did with each of them.
std::string status_of(const StudyRows& rows, size_t row) {
  std::string text;
  const auto add = [&](const ExperimentResult& of_seed) {
    const RunResult& result = of_seed.rows[row];
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

bool has_several(const StudyRows& rows, const std::vector<size_t>& shown) {
  return std::any_of(shown.begin(), shown.end(), [&](size_t row) {
    return rows.result.rows[row].devices != rows.result.rows[shown.front()].devices;
  });
}

json axis_json(const std::string& quantity, const StudyRows& rows, const QuantityScale& scale) {
  return {{"title", title_of(quantity, rows)}, {"unit", scale.unit}, {"devices", quantity == "devices"}};
}

double largest_of(const std::string& quantity, const StudyRows& rows, const std::vector<size_t>& shown) {
  double largest = 0;
  for (const size_t row : shown) largest = std::max(largest, std::abs(quantity_of(quantity, rows, row).value_or(0)));
  return largest;
}

json set_json(const std::string& name, const std::string& variant, int devices, json points) {
  return {{"name", name}, {"variant", variant}, {"devices", devices}, {"points", std::move(points)}};
}

/// One set per strategy.
json sets_of_rows(const StudyChart& chart, const StudyRows& rows, const std::vector<size_t>& shown,
                  const QuantityScale& x_scale, const QuantityScale& y_scale) {
  std::vector<std::string> names;
  for (const size_t row : shown)
    if (const std::string name = variant_name(rows.result.rows[row]);
        std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  json sets = json::array();
  for (const std::string& name : names) {
    json points = json::array();
    for (const size_t row : shown) {
      if (variant_name(rows.result.rows[row]) != name) continue;
      const auto x = quantity_of(chart.x, rows, row), y = quantity_of(chart.y, rows, row);
      if (x && y)
        points.push_back({{"x", *x / x_scale.size}, {"y", *y / y_scale.size}, {"of", row_name(rows.result.rows[row])}});
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
json progress_json(const StudyChart& chart, const StudyRows& rows, const std::vector<size_t>& shown) {
  const bool of_time = chart.x == "time", several = has_several(rows, shown);
  const QuantityScale x_scale = of_time ? scale_of("time", rows, largest_of("time", rows, shown)) : QuantityScale{},
                      y_scale = scale_of(chart.y, rows, 1);
  json sets = json::array();
  for (const size_t index : shown) {
    const RunResult& row = rows.result.rows[index];
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
    const std::string name = variant_name(row);
    if (!points.empty()) sets.push_back(set_json(several ? row_name(row) : name, name, row.devices, std::move(points)));
  }
  return {{"x", {{"title", of_time ? "time" : chart.x}, {"unit", x_scale.unit}, {"devices", false}}},
          {"y", axis_json(chart.y, rows, y_scale)},
          {"sets", std::move(sets)}};
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

}  // namespace

bool shows_run(const StudyPart& part, const StudyRun& run) { return is_among(part.runs, run.name); }

std::vector<size_t> shown_rows(const StudyPart& part, const StudyRows& rows) {
  std::vector<size_t> shown;
  for (size_t k = 0; k < rows.result.rows.size(); ++k) {
    const RunResult& row = rows.result.rows[k];
    const bool strategy = is_among(part.strategies, variant_name(row)) || is_among(part.strategies, row.strategy);
    if (strategy && is_among(part.devices, row.devices)) shown.push_back(k);
  }
  return shown;
}

std::vector<Column> part_table(const StudyPart& part, const StudyRun& run, const StudyRows& rows) {
  const std::vector<size_t> shown = shown_rows(part, rows);
  if (part.table.empty() || shown.empty()) return {};
  const auto& results = rows.result.rows;
  std::vector<Column> columns{
      text_column("strategy", rows, shown, [&](size_t row) { return variant_name(results[row]); })};
  const auto has = [&](const char* name) {
    return std::find(part.table.begin(), part.table.end(), name) != part.table.end();
  };
  if (has_several(rows, shown) && !has("devices"))
    columns.push_back(text_column(
        "devices", rows, shown, [&](size_t row) { return fmt::format("{}", results[row].devices); }, true));
  if (!rows.chosen.empty())
    columns.push_back(text_column(last_part(run.tuning ? run.tuning->key : "chosen"), rows, shown,
                                  [&](size_t row) { return rows.chosen[row]; }));
  for (const std::string& quantity : part.table) {
    Numbers numbers, spreads;
    for (const size_t row : shown) {
      numbers.push_back(quantity_of(quantity, rows, row));
      spreads.push_back(spread_of(quantity, rows, row));
    }
    columns.push_back(number_column(title_of(quantity, rows), quantity, rows, numbers, spreads));
    if (const Numbers paper = published_numbers(part, run, rows, shown, quantity); !paper.empty())
      columns.push_back(number_column(title_of(quantity, rows) + ", published", quantity, rows, paper));
  }
  Column status = text_column("status", rows, shown, [&](size_t row) { return status_of(rows, row); });
  if (std::any_of(status.cells.begin(), status.cells.end(), [](const std::string& cell) { return cell != kOk; }))
    columns.push_back(std::move(status));
  return columns;
}

json chart_json(const StudyPart& part, const StudyChart& chart, const StudyRun& run, const StudyRows& rows) {
  const std::vector<size_t> shown = shown_rows(part, rows);
  json out;
  if (chart.kind == ChartKind::progress) {
    out = progress_json(chart, rows, shown);
  } else {
    const QuantityScale x_scale = scale_of(chart.x, rows, largest_of(chart.x, rows, shown)),
                        y_scale = scale_of(chart.y, rows, largest_of(chart.y, rows, shown));
    out = {{"x", axis_json(chart.x, rows, x_scale)},
           {"y", axis_json(chart.y, rows, y_scale)},
           {"sets", sets_of_rows(chart, rows, shown, x_scale, y_scale)}};
    if (chart.x == "devices") add_published(part, chart, run, y_scale, out["sets"]);
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
      cheap ? fmt::format("{} {}", significant(*cheap->price_to_target), rows.result.currency) : "");
  const RunResult* small = least(rows, number("peak memory"));
  say("Least memory per device", small, small ? format_bytes(int64_t(*peak_memory(*small))) : "");
  return advice;
}

}  // namespace trireme
