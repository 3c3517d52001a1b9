#include "report/columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <set>

#include "base/counted.h"
#include "base/text.h"
#include "base/units.h"
#include "plan/strategy.h"
#include "report/quantities.h"

namespace trireme {
namespace {

constexpr const char* kNotMeasured = "–";
constexpr size_t kLongestNames = 36;    ///< characters that the names of merged rows take
constexpr double kShownLoading = 0.01;  ///< share of step time below which the column is omitted

double largest_of(const std::vector<RunResult>& rows, const std::function<Value(const RunResult&)>& value) {
  double largest = 0;
  for (const RunResult& row : rows)
    if (Value v = value(row); v && std::isfinite(*v)) largest = std::max(largest, std::abs(*v));
  return largest;
}

class Builder {
 public:
  explicit Builder(const std::vector<RunResult>& rows) : rows_(rows) {}

  void add(std::string title, std::string unit, const std::function<std::string(const RunResult&)>& cell,
           bool numeric = true) {
    Column column{std::move(title), std::move(unit), numeric, {}};
    bool any = false;
    for (const RunResult& row : rows_) {
      std::string text = cell(row);
      any |= !text.empty();
      column.cells.push_back(text.empty() ? kNotMeasured : std::move(text));
    }
    if (any) columns_.push_back(std::move(column));
  }

  template <size_t n>
  void add_scaled(std::string title, const Scale (&scales)[n], const std::function<Value(const RunResult&)>& value) {
    Scale scale = scale_for(scales, largest_of(rows_, value));
    add(std::move(title), scale.unit, [&](const RunResult& row) {
      Value v = value(row);
      return v ? significant(*v / scale.size) : std::string();
    });
  }

  std::vector<Column> take() { return std::move(columns_); }

 private:
  const std::vector<RunResult>& rows_;
  std::vector<Column> columns_;
};

std::vector<std::string> distinct_warnings(const ExperimentResult& result) {
  std::vector<std::string> warnings;
  for (const RunResult& row : result.rows)
    for (const std::string& warning : row.warnings)
      if (std::find(warnings.begin(), warnings.end(), warning) == warnings.end()) warnings.push_back(warning);
  return warnings;
}

std::string status_cell(const RunResult& row, const std::vector<std::string>& warnings, bool simulated) {
  std::string text = simulated && row.status == RunStatus::ok ? "predicted" : name_of(row.status);
  for (size_t i = 0; i < warnings.size(); ++i)
    if (std::find(row.warnings.begin(), row.warnings.end(), warnings[i]) != row.warnings.end())
      text += fmt::format(" [{}]", i + 1);
  return text;
}

Value mean(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

const EvaluationPoint* first_evaluation(const std::vector<RunResult>& rows) {
  for (const RunResult& row : rows)
    if (row.test) return &*row.test;
  return nullptr;
}

/// "0.0400 / 98.7 %": the loss, and the main metric if there is one.
std::string loss_and_metric(const std::optional<EvaluationPoint>& point) {
  if (!point) return "";
  std::string text = std::isfinite(point->loss) ? fmt::format("{:.4f}", point->loss) : "not finite";
  if (const Metric* main = point->main()) text += " / " + metric_text(*main);
  return text;
}

/// Returns the names of all metrics that `metrics_of` returns for any row, in their order.
std::vector<std::string> names_of(const std::vector<RunResult>& rows,
                                  const std::function<const std::vector<Metric>*(const RunResult&)>& metrics_of) {
  std::vector<std::string> names;
  for (const RunResult& row : rows)
    if (const std::vector<Metric>* metrics = metrics_of(row))
      for (const Metric& metric : *metrics)
        if (std::find(names.begin(), names.end(), metric.name) == names.end()) names.push_back(metric.name);
  return names;
}

const std::vector<Metric>* test_metrics(const RunResult& row) { return row.test ? &row.test->metrics : nullptr; }
const std::vector<Metric>* final_metrics(const RunResult& row) { return &row.final_metrics; }

/// "9.81-10.3 (3)": the least and the greatest median of the runs of a row, and how many there were.
void add_repeats(const std::vector<RunResult>& rows, Builder& table) {
  if (std::all_of(rows.begin(), rows.end(), [](const RunResult& row) { return row.repeats.empty(); })) return;
  const auto greatest = [](const RunResult& row) {
    Value most;
    for (const RepeatReport& run : row.repeats) most = std::max(most.value_or(0), run.step_seconds.median);
    return most;
  };
  const Scale scale = scale_for(kTimes, largest_of(rows, greatest));
  table.add("between repeats", fmt::format("{}: least-most median (runs)", scale.unit),
            [&](const RunResult& row) -> std::string {
              if (row.repeats.empty()) return "";
              double least = row.repeats.front().step_seconds.median;
              for (const RepeatReport& run : row.repeats) least = std::min(least, run.step_seconds.median);
              return fmt::format("{}-{} ({})", significant(least / scale.size),
                                 significant(*greatest(row) / scale.size), row.repeats.size());
            });
}

void add_step_time(const std::vector<RunResult>& rows, Builder& table) {
  auto median = [](const RunResult& row) { return row.step_seconds ? Value(row.step_seconds->median) : std::nullopt; };
  Scale scale = scale_for(kTimes, largest_of(rows, median));
  const bool ran = std::any_of(rows.begin(), rows.end(), [](const RunResult& r) {
    return r.step_seconds && r.step_seconds->p10 != r.step_seconds->p90;
  });
  table.add("time per step", ran ? fmt::format("{}: median [p10-p90]", scale.unit) : scale.unit,
            [&](const RunResult& row) -> std::string {
              if (!row.step_seconds) return "";
              const StepSeconds& s = *row.step_seconds;
              if (s.p10 == s.p90) return significant(s.median / scale.size);  // predicted
              return fmt::format("{} [{}-{}]", significant(s.median / scale.size), significant(s.p10 / scale.size),
                                 significant(s.p90 / scale.size));
            });
  add_repeats(rows, table);
}

void add_batch(Builder& table) {
  table.add("batch", "samples",
            [](const RunResult& row) { return row.batch ? std::to_string(*row.batch) : std::string(); });
}

void add_speed(Builder& table) {
  table.add("speed", "samples/s", [](const RunResult& row) {
    return row.samples_per_second ? fmt::format("{:.0f}", *row.samples_per_second) : std::string();
  });
  table.add("scaling", "% of ideal", [](const RunResult& row) {
    return row.scaling_efficiency ? percent(*row.scaling_efficiency) : std::string();
  });
}

void add_times(const std::vector<RunResult>& rows, Builder& table) {
  add_step_time(rows, table);
  table.add_scaled("epoch", kTimes, [](const RunResult& row) { return row.epoch_seconds; });
  add_speed(table);
  table.add("busy", "% of step", [](const RunResult& row) {
    Value busy = mean(row.busy_share);
    return busy ? percent(*busy) : std::string();
  });
  const auto loads = [](const RunResult& row) { return row.loading_share.value_or(0) > kShownLoading; };
  if (std::any_of(rows.begin(), rows.end(), loads))
    table.add("loading", "% of step",
              [](const RunResult& row) { return row.loading_share ? percent(*row.loading_share) : std::string(); });
}

bool all_from_one_source(const std::vector<RunResult>& rows) {
  std::set<std::string> sources;
  for (const RunResult& row : rows)
    if (row.predicted) sources.insert(row.predicted->basis);
  return sources.size() <= 1;
}

/// Adds predicted next to measured times: "9.19 (-4 %)", and the speed of the cores at which they are compared. A
/// simulated row shows the source of its prediction instead.
/// `only_if_they_differ`: leaves the source out where all rows have the same: a line below the tables names it.
void add_predictions(const ExperimentResult& result, Builder& table, bool only_if_they_differ = false) {
  if (!result.simulated.empty()) {
    if (only_if_they_differ && all_from_one_source(result.rows)) return;
    table.add(
        "from", "", [](const RunResult& row) { return row.predicted ? row.predicted->basis : std::string(); }, false);
    return;
  }
  const auto seconds = [](const RunResult& row) {
    return row.predicted ? Value(row.predicted->step_seconds) : std::nullopt;
  };
  const Scale scale = scale_for(kTimes, largest_of(result.rows, seconds));
  const auto knows_speed = [](const RunResult& row) { return core_speed_of(row).has_value(); };
  const bool speeds = std::any_of(result.rows.begin(), result.rows.end(), knows_speed);
  const std::string unit = fmt::format("{} (off by{})", scale.unit, speeds ? " at the cores' speed" : "");
  table.add("predicted step", unit, [&](const RunResult& row) -> std::string {
    if (!row.predicted) return "";
    std::string text = significant(row.predicted->step_seconds / scale.size);
    if (!row.step_seconds) return text;
    return fmt::format("{} ({:+.0f} %)", text,
                       100 * (prediction_at_core_speed(row) / *step_beside_prediction(row) - 1));
  });
  if (!speeds) return;
  const auto add_speed = [&](const char* what, std::optional<double> (*speed_of)(const RunResult&)) {
    table.add(what, "speed, profile = 1", [=](const RunResult& row) {
      const std::optional<double> speed = speed_of(row);
      return speed ? fmt::format("{:.2f}", *speed) : std::string();
    });
  };
  add_speed("cores", core_speed_of);
  add_speed("memory", memory_speed_of);
}

void add_predicted_memory(const ExperimentResult& result, Builder& table) {
  if (!result.simulated.empty()) return;
  const auto bytes = [](const RunResult& row) {
    return row.predicted && row.predicted->peak_memory ? Value(double(*row.predicted->peak_memory)) : std::nullopt;
  };
  const Scale scale = scale_for(kBytes, largest_of(result.rows, bytes));
  table.add("predicted memory", fmt::format("{} (off by)", scale.unit), [&](const RunResult& row) -> std::string {
    const Value predicted = bytes(row), measured = peak_memory(row);
    if (!predicted) return "";
    const std::string text = significant(*predicted / scale.size);
    return measured && *measured > 0 ? fmt::format("{} ({:+.0f} %)", text, 100 * (*predicted / *measured - 1)) : text;
  });
}

/// "78 to 84": without the allocator's overhead, and with twice the usual one.
void add_device_memory(const ExperimentResult& result, Builder& table) {
  const auto highest = [](const RunResult& row) {
    return row.predicted && row.predicted->device_memory ? Value(double(row.predicted->device_memory->high))
                                                         : std::nullopt;
  };
  const Scale scale = scale_for(kBytes, largest_of(result.rows, highest));
  table.add("taken of a device", scale.unit, [&](const RunResult& row) -> std::string {
    if (!highest(row)) return "";
    const MemoryRange& memory = *row.predicted->device_memory;
    return fmt::format("{} ({} to {})", significant(double(memory.expected) / scale.size),
                       significant(double(memory.low) / scale.size), significant(double(memory.high) / scale.size));
  });
}

void add_money(const ExperimentResult& result, Builder& table) {
  const auto amount = [](const std::optional<double>& price) { return price ? money_text(*price) : ""; };
  table.add("price of an epoch", result.currency, [&](const RunResult& row) { return amount(row.price_per_epoch); });
  table.add("price to target", result.currency, [&](const RunResult& row) { return amount(row.price_to_target); });
}

/// Merges each row into the first one with the same cells apart from its name.
void merge_equal_rows(std::vector<Column>& columns) {
  std::vector<std::string>& names = columns.front().cells;
  const auto equal = [&](size_t a, size_t b) {
    return std::all_of(columns.begin() + 1, columns.end(), [&](const Column& c) { return c.cells[a] == c.cells[b]; });
  };
  for (size_t row = 1; row < names.size();) {
    size_t first = 0;
    while (!equal(first, row)) ++first;
    const std::string both = names[first] + ", " + names[row];
    if (first == row || both.size() > kLongestNames) {
      ++row;
      continue;
    }
    names[first] = both;
    for (Column& column : columns) column.cells.erase(column.cells.begin() + std::ptrdiff_t(row));
  }
}

void add_costs(Builder& table) {
  table.add("exposed / hidden comm.", "% of step", [](const RunResult& row) -> std::string {
    if (!row.exposed_communication && !row.hidden_communication) return "";
    return fmt::format("{} / {}", row.exposed_communication ? percent(*row.exposed_communication) : kNotMeasured,
                       row.hidden_communication ? percent(*row.hidden_communication) : kNotMeasured);
  });

  table.add_scaled("sent per step", kBytes, [](const RunResult& row) {
    return row.bytes_per_step ? Value(static_cast<double>(*row.bytes_per_step)) : std::nullopt;
  });
  table.add_scaled("peak memory", kBytes, peak_memory);
}

/// "1 / 7": the median staleness of the exchanges, and the largest.
std::string median_and_most(const std::vector<int64_t>& histogram) {
  const int64_t count = std::accumulate(histogram.begin(), histogram.end(), int64_t{0});
  if (count == 0) return "";
  size_t median = 0, most = histogram.size() - 1;
  for (int64_t within = histogram[0]; 2 * within < count; within += histogram[median]) ++median;
  while (histogram[most] == 0) --most;
  return fmt::format("{} / {}", median, most);
}

/// Adds the columns of rows under an update policy.
void add_replicas(const std::vector<RunResult>& rows, Builder& table) {
  if (under_policies(rows)) table.add_scaled("trained for", kTimes, training_seconds);
  table.add("waiting for others", "% of time", [](const RunResult& row) {
    const bool is_known = row.replicas && std::isfinite(row.replicas->idle_share);
    return is_known ? percent(row.replicas->idle_share) : std::string();
  });
  table.add_scaled("sent by all replicas", kBytes, [](const RunResult& row) {
    return row.replicas ? Value(double(row.replicas->bytes)) : std::nullopt;
  });
  table.add("staleness", "median / most", [](const RunResult& row) {
    return row.replicas ? median_and_most(row.replicas->staleness) : std::string();
  });
}

/// Adds a column for each metric of the last evaluation except the main one and those of single classes, then for the
/// final metrics.
void add_metrics(const std::vector<RunResult>& rows, Builder& table) {
  for (const auto& metrics_of : {test_metrics, final_metrics}) {
    const bool of_test = metrics_of == test_metrics;
    const std::vector<std::string> names = names_of(rows, metrics_of);
    for (size_t i = of_test ? 1 : 0; i < names.size(); ++i) {
      const MetricKind kind = kind_of_metric(names[i]);
      if (kind.is_per_class) continue;
      table.add(kind.title, of_test ? "test" : "after training", [&](const RunResult& row) {
        const std::vector<Metric>* metrics = metrics_of(row);
        const Metric* metric = metrics ? find_metric(*metrics, names[i]) : nullptr;
        return metric ? metric_text(*metric) : std::string();
      });
    }
  }
}

std::string unit_of_quality(const std::vector<RunResult>& rows) {
  const EvaluationPoint* first = first_evaluation(rows);
  return first && first->main() ? "loss / " + kind_of_metric(first->main()->name).title : "loss";
}

void add_quality(const std::vector<RunResult>& rows, Builder& table) {
  const std::string unit = unit_of_quality(rows);
  table.add("test", unit, [](const RunResult& row) { return loss_and_metric(row.test); });
  table.add("test, equal samples", unit,
            [](const RunResult& row) { return loss_and_metric(row.test_at_equal_samples); });
  table.add("test, equal time", unit, [](const RunResult& row) { return loss_and_metric(row.test_at_equal_time); });
  add_metrics(rows, table);
  table.add("to target", "steps / epochs / s", [](const RunResult& row) -> std::string {
    if (row.to_target)
      return fmt::format("{} / {} / {}", row.to_target->steps, significant(row.to_target->epochs),
                         significant(row.to_target->seconds));
    return row.target && row.status == RunStatus::ok ? "not reached" : "";
  });
  table.add("noise scale", "samples", [](const RunResult& row) {
    return row.noise_scale ? fmt::format("{:.0f}", *row.noise_scale) : std::string();
  });
}

}  // namespace

std::string variant_name(const RunResult& row) { return row.name.empty() ? row.strategy : row.name; }

std::string row_name(const RunResult& row) {
  return fmt::format("{} on {}", variant_name(row), counted(row.devices, "device"));
}

std::vector<Column> comparison_columns(const ExperimentResult& result) {
  std::vector<std::string> warnings = distinct_warnings(result);
  Builder table(result.rows);
  table.add("strategy", "", variant_name, false);
  table.add("devices", "", devices_cell);
  add_batch(table);
  table.add(
      "plan", "", [](const RunResult& row) { return row.plan; }, false);
  table.add(
      "status", "", [&](const RunResult& row) { return status_cell(row, warnings, !result.simulated.empty()); }, false);
  add_times(result.rows, table);
  add_predictions(result, table);
  add_costs(table);
  add_replicas(result.rows, table);
  add_predicted_memory(result, table);
  add_device_memory(result, table);
  add_money(result, table);
  add_quality(result.rows, table);
  return table.take();
}

std::vector<Column> deciding_columns(const ExperimentResult& result) {
  const std::vector<std::string> warnings = distinct_warnings(result);
  Builder table(result.rows);
  table.add("strategy", "", variant_name, false);
  table.add("devices", "", devices_cell);
  const auto status = [&](const RunResult& row) { return status_cell(row, warnings, !result.simulated.empty()); };
  const auto says_ok = [&](const RunResult& row) { return status(row) == name_of(RunStatus::ok); };
  if (!std::all_of(result.rows.begin(), result.rows.end(), says_ok)) table.add("status", "", status, false);
  add_batch(table);
  add_step_time(result.rows, table);
  if (under_policies(result.rows) || has_own_batches(result))
    table.add_scaled("epoch", kTimes, [](const RunResult& row) { return row.epoch_seconds; });
  if (has_own_batches(result)) {
    add_speed(table);  // no speedup: the base may have several devices
  } else {
    table.add("speedup", "x", [](const RunResult& row) {
      return row.scaling_efficiency ? fmt::format("{:.2f}", *row.scaling_efficiency * row.devices) : std::string();
    });
  }
  table.add_scaled("peak memory", kBytes, peak_memory);
  table.add("test", unit_of_quality(result.rows), [](const RunResult& row) { return loss_and_metric(row.test); });
  add_money(result, table);
  add_predictions(result, table, /*only_if_they_differ=*/true);
  std::vector<Column> columns = table.take();
  merge_equal_rows(columns);
  return columns;
}

std::vector<Column> class_columns(const ExperimentResult& result) {
  std::vector<Column> columns = {{"class", "", true, {}}};
  std::vector<std::string> names = names_of(result.rows, test_metrics);
  std::erase_if(names, [](const std::string& name) { return !kind_of_metric(name).is_per_class; });
  if (names.empty()) return {};
  for (const std::string& name : names) columns[0].cells.push_back(name.substr(name.find('.') + 1));
  for (const RunResult& row : result.rows) {
    if (!row.test) continue;
    Column& column =
        columns.emplace_back(Column{fmt::format("{}, {}", variant_name(row), row.devices), "IoU, %", true, {}});
    for (const std::string& name : names) {
      const Metric* metric = find_metric(row.test->metrics, name);
      column.cells.push_back(metric && std::isfinite(metric->value) ? percent(metric->value) : kNotMeasured);
    }
  }
  return columns;
}

std::vector<Column> block_columns(const ExperimentResult& result) {
  std::vector<Column> columns = {{"strategy", "", false, {}}, {"devices", "", true, {}},
                                 {"stage", "", true, {}},     {"blocks", "", false, {}},
                                 {"layers", "", true, {}},    {"strategy of the blocks", "", false, {}}};
  for (const RunResult& row : result.rows)
    for (size_t first = 0, last = 0; first < row.blocks.size(); first = last) {
      const BlockStrategy& block = row.blocks[first];
      int layers = 0;
      for (; last < row.blocks.size() && row.blocks[last].stage == block.stage &&
             row.blocks[last].strategy == block.strategy;
           ++last)
        layers += row.blocks[last].layers;
      const std::string& end = row.blocks[last - 1].block;
      const std::string blocks = last - first == 1 ? end : fmt::format("{} to {}", block.block, end);
      const std::string cells[] = {variant_name(row),
                                   fmt::format("{}", row.devices),
                                   fmt::format("{}", block.stage),
                                   blocks,
                                   fmt::format("{}", layers),
                                   block.strategy};
      for (size_t i = 0; i < columns.size(); ++i) columns[i].cells.push_back(cells[i]);
    }
  if (columns[0].cells.empty()) return {};
  return columns;
}

std::vector<std::string> strategy_notes(const ExperimentResult& result) {
  std::vector<std::string> notes;
  for (const RunResult& row : result.rows)
    if (std::string note = strategy_note(row.strategy);
        !note.empty() && std::find(notes.begin(), notes.end(), note) == notes.end())
      notes.push_back(std::move(note));
  return notes;
}

std::vector<std::string> footnotes(const ExperimentResult& result) {
  std::vector<std::string> notes;
  for (const std::string& warning : distinct_warnings(result))
    notes.push_back(fmt::format("[{}] {}", notes.size() + 1, warning));
  for (const std::string& note : strategy_notes(result)) notes.push_back(note);
  for (const RunResult& row : result.rows)
    for (const PlanChange& c : row.changes)
      notes.push_back(fmt::format("{}: after step {} \"{}\" -> \"{}\" in {}: {}", row_name(row), c.step, c.from, c.to,
                                  format_seconds(c.seconds), c.reason));
  if (std::string note = note_on_batches(result); !note.empty()) notes.push_back(std::move(note));
  if (!result.simulated.empty()) notes.push_back("simulated: " + result.simulated);
  if (!result.prices.empty()) notes.push_back("prices: " + result.prices);
  return notes;
}

std::vector<std::string> failures(const ExperimentResult& result) {
  std::vector<std::vector<const RunResult*>> alike;  // rows that ended in the same way for the same reason
  for (const RunResult& row : result.rows) {
    if (row.status == RunStatus::ok) continue;
    const auto same = std::find_if(alike.begin(), alike.end(), [&](const auto& rows) {
      return rows.front()->status == row.status && rows.front()->reason == row.reason;
    });
    if (same == alike.end()) alike.push_back({&row});
    else same->push_back(&row);
  }
  std::vector<std::string> lines;
  for (const auto& rows : alike) {
    const RunResult& row = *rows.front();
    lines.push_back(
        fmt::format("{}: {}{}", names_of(rows), name_of(row.status), row.reason.empty() ? "" : ": " + row.reason));
  }
  return lines;
}

}  // namespace trireme
