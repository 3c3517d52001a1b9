#include "study/quantities.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "plan/strategy.h"
#include "report/quantities.h"
#include "train/compare.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// The rows of one seed.
struct Rows {
  const ExperimentResult& own;
  const ExperimentResult* of_base_run = nullptr;  ///< of another run; nullptr: none
};

enum class Kind { count, seconds, bytes, share, factor, money, metric, metric_difference, plain };

struct Quantity {
  const char* name;
  Kind kind;
  Value (*of)(const Rows& rows, const RunResult& row);
};

Value mean_of(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  return std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

/// A row on one device: of the same strategy, otherwise `single`, with the same clock.
const RunResult* base_among(const std::vector<RunResult>& rows, const RunResult& row, bool any_strategy) {
  const RunResult *base = nullptr, *first = nullptr;
  for (const RunResult& other : rows) {
    if (other.devices != 1 || other.status != RunStatus::ok || clock_of(other) != clock_of(row)) continue;
    if (variant_name(other) == variant_name(row)) return &other;
    if (is_single(other.strategy)) base = &other;
    if (!first) first = &other;
  }
  return base || !any_strategy ? base : first;
}

/// The row with which a row is compared; nullptr: there is none.
const RunResult* base_of(const Rows& rows, const RunResult& row) {
  if (rows.of_base_run) return base_among(rows.of_base_run->rows, row, true);
  return base_among(rows.own.rows, row, false);
}

/// `compare(base, own)` of a quantity of the row and of its base.
Value against_base(const Rows& rows, const RunResult& row, Value (*quantity)(const RunResult&),
                   double (*compare)(double base, double own)) {
  const RunResult* base = base_of(rows, row);
  const Value own = quantity(row), of_base = base ? quantity(*base) : std::nullopt;
  if (!own || !of_base) return std::nullopt;
  return compare(*of_base, *own);
}

Value throughput(const RunResult& row) { return row.samples_per_second; }

Value result_at(const std::optional<EvaluationPoint>& point) {
  const Metric* main = point ? point->main() : nullptr;
  return main ? Value(main->value) : std::nullopt;
}

Value final_result(const RunResult& row) { return result_at(row.test); }

std::optional<MetricKind> metric_kind(const ExperimentResult& rows) {
  for (const RunResult& row : rows.rows)
    if (row.test && row.test->main()) return kind_of_metric(row.test->main()->name);
  return std::nullopt;
}

Value lost(const Rows& rows, const RunResult& row) {
  const std::optional<MetricKind> kind = metric_kind(rows.own);
  const double sign = kind && !kind->higher_is_better ? -1 : 1;
  const Value difference = against_base(rows, row, final_result, [](double base, double own) { return base - own; });
  return difference ? Value(sign * *difference) : std::nullopt;
}

Value sent(const RunResult& row) {
  if (row.replicas) return double(row.replicas->bytes);
  if (!row.bytes_per_step || row.curve.empty()) return std::nullopt;
  return double(*row.bytes_per_step) * double(row.curve.back().step) * row.devices;
}

Value mean_staleness(const RunResult& row) {
  if (!row.replicas) return std::nullopt;
  double exchanges = 0, sum = 0;
  for (size_t k = 0; k < row.replicas->staleness.size(); ++k) {
    exchanges += double(row.replicas->staleness[k]);
    sum += double(k) * double(row.replicas->staleness[k]);
  }
  return exchanges > 0 ? Value(sum / exchanges) : std::nullopt;
}

constexpr Quantity kQuantities[] = {
    {"devices", Kind::count, [](const Rows&, const RunResult& row) { return Value(row.devices); }},
    {"batch", Kind::count,
     [](const Rows&, const RunResult& row) {
       const Value samples = samples_per_step(row);
       return samples ? Value(std::round(*samples)) : std::nullopt;
     }},
    {"time", Kind::seconds, [](const Rows&, const RunResult& row) { return training_seconds(row); }},
    {"time per step", Kind::seconds,
     [](const Rows&, const RunResult& row) {
       return row.step_seconds ? Value(row.step_seconds->median) : std::nullopt;
     }},
    {"time per epoch", Kind::seconds, [](const Rows&, const RunResult& row) { return row.epoch_seconds; }},
    {"throughput", Kind::plain, [](const Rows&, const RunResult& row) { return row.samples_per_second; }},
    {"speedup", Kind::factor,
     [](const Rows& rows, const RunResult& row) {
       return against_base(rows, row, throughput, [](double base, double own) { return own / base; });
     }},
    {"efficiency", Kind::share,
     [](const Rows& rows, const RunResult& row) {
       const Value speedup = against_base(rows, row, throughput, [](double base, double own) { return own / base; });
       return speedup ? Value(*speedup / row.devices) : std::nullopt;
     }},
    {"time saved", Kind::share,
     [](const Rows& rows, const RunResult& row) {
       return against_base(rows, row, training_seconds, [](double base, double own) { return 1 - own / base; });
     }},
    {"utilisation", Kind::share, [](const Rows&, const RunResult& row) { return mean_of(row.busy_share); }},
    {"exposed communication", Kind::share, [](const Rows&, const RunResult& row) { return row.exposed_communication; }},
    {"waiting", Kind::share,
     [](const Rows&, const RunResult& row) {
       return row.replicas && std::isfinite(row.replicas->idle_share) ? Value(row.replicas->idle_share) : std::nullopt;
     }},
    {"sent", Kind::bytes, [](const Rows&, const RunResult& row) { return sent(row); }},
    {"staleness", Kind::plain, [](const Rows&, const RunResult& row) { return mean_staleness(row); }},
    {"peak memory", Kind::bytes, [](const Rows&, const RunResult& row) { return peak_memory(row); }},
    {"loss", Kind::plain,
     [](const Rows&, const RunResult& row) { return row.test ? Value(row.test->loss) : std::nullopt; }},
    {"result", Kind::metric, [](const Rows&, const RunResult& row) { return final_result(row); }},
    {"lost", Kind::metric_difference, [](const Rows& rows, const RunResult& row) { return lost(rows, row); }},
    {"result at equal time", Kind::metric,
     [](const Rows&, const RunResult& row) { return result_at(row.test_at_equal_time); }},
    {"result at equal samples", Kind::metric,
     [](const Rows&, const RunResult& row) { return result_at(row.test_at_equal_samples); }},
    {"time to target", Kind::seconds,
     [](const Rows&, const RunResult& row) { return row.to_target ? Value(row.to_target->seconds) : std::nullopt; }},
    {"epochs to target", Kind::plain,
     [](const Rows&, const RunResult& row) { return row.to_target ? Value(row.to_target->epochs) : std::nullopt; }},
    {"price of an epoch", Kind::money, [](const Rows&, const RunResult& row) { return row.price_per_epoch; }},
    {"price to target", Kind::money, [](const Rows&, const RunResult& row) { return row.price_to_target; }},
};

const Quantity& find(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kQuantities), std::end(kQuantities), [&](const Quantity& q) { return q.name == name; });
  check_internal(found != std::end(kQuantities), "a study has known quantities only");
  return *found;
}

Value number_of(std::string_view name, const Rows& rows, size_t row) {
  const RunResult& result = rows.own.rows[row];
  constexpr std::string_view kOfWholeRuns[] = {"time", "time saved", "sent", "result", "lost", "loss"};
  const bool is_whole = std::find(std::begin(kOfWholeRuns), std::end(kOfWholeRuns), name) != std::end(kOfWholeRuns);
  if (is_whole && result.status != RunStatus::ok) return std::nullopt;  // it ended early
  return find(name).of(rows, result);
}

/// The rows with the seed of this index, or with the last one if there are fewer.
const ExperimentResult& of_seed(const StudyRows& rows, size_t seed) {
  const size_t more = std::min(seed, rows.more_seeds.size());
  return more == 0 ? rows.result : rows.more_seeds[more - 1];
}

/// By seed; empty if a seed lacks it.
std::vector<double> numbers_of(std::string_view name, const StudyRows& rows, size_t row) {
  std::vector<double> numbers;
  const auto add = [&](size_t seed) {
    const ExperimentResult* base = rows.base ? &of_seed(*rows.base, seed) : nullptr;
    if (const Value number = number_of(name, {of_seed(rows, seed), base}, row)) numbers.push_back(*number);
  };
  for (size_t seed = 0; seed <= rows.more_seeds.size(); ++seed) add(seed);
  return numbers.size() == 1 + rows.more_seeds.size() ? numbers : std::vector<double>();
}

std::string number_text(double value, const QuantityScale& scale) {
  const double scaled = value / scale.size;
  if (scale.is_money) return money_text(scaled);
  if (scale.whole && std::isfinite(scaled)) return fmt::format("{:.0f}", scaled);
  return scale.unit == "%" && std::isfinite(scaled) ? fmt::format("{:.1f}", scaled) : significant(scaled);
}

}  // namespace

std::vector<std::string> quantity_names() {
  std::vector<std::string> names;
  for (const Quantity& quantity : kQuantities) names.emplace_back(quantity.name);
  return names;
}

std::string_view time_with_price(std::string_view name) {
  if (name == "price of an epoch") return "time per epoch";
  return name == "price to target" ? "time to target" : "";
}

std::optional<double> quantity_of(std::string_view name, const StudyRows& rows, size_t row) {
  return mean_of(numbers_of(name, rows, row));
}

std::optional<double> spread_of(std::string_view name, const StudyRows& rows, size_t row) {
  const std::vector<double> numbers = numbers_of(name, rows, row);
  if (numbers.size() < 2) return std::nullopt;
  const double mean = *mean_of(numbers);
  double squares = 0;
  for (const double number : numbers) squares += (number - mean) * (number - mean);
  return std::sqrt(squares / double(numbers.size() - 1));
}

QuantityScale scale_of(std::string_view name, const StudyRows& rows, double largest) {
  const auto of = [](const Scale& scale) { return QuantityScale{scale.unit, scale.size}; };
  switch (find(name).kind) {
    case Kind::seconds: return of(scale_for(kTimes, largest));
    case Kind::bytes: return of(scale_for(kBytes, largest));
    case Kind::share: return {"%", 0.01};
    case Kind::factor: return {"x", 1};
    case Kind::money: return {rows.result.currency, 1, false, true};
    case Kind::count: return {"", 1, true};
    case Kind::metric:
    case Kind::metric_difference: {
      const std::optional<MetricKind> kind = metric_kind(rows.result);
      if (!kind || !kind->is_share) return {"", 1};
      return {find(name).kind == Kind::metric ? "%" : "points", 0.01};
    }
    case Kind::plain: return {find(name).name == std::string_view("throughput") ? "samples/s" : "", 1};
  }
  return {};
}

std::string title_of(std::string_view name, const StudyRows& rows) {
  const std::optional<MetricKind> kind = metric_kind(rows.result);
  if (find(name).kind != Kind::metric || !kind) return std::string(name);
  return kind->title + std::string(name.substr(std::string_view("result").size()));
}

Column number_column(std::string title, std::string_view name, const StudyRows& rows,
                     const std::vector<std::optional<double>>& numbers,
                     const std::vector<std::optional<double>>& spreads) {
  double largest = 0;
  for (const Value& number : numbers)
    if (number && std::isfinite(*number)) largest = std::max(largest, std::abs(*number));
  const QuantityScale scale = scale_of(name, rows, largest);
  Column column{std::move(title), scale.unit, true, {}};
  for (size_t k = 0; k < numbers.size(); ++k) {
    column.cells.push_back(numbers[k] ? number_text(*numbers[k], scale) : "–");
    if (k < spreads.size() && spreads[k] && !scale.whole)
      column.cells.back() += " ± " + number_text(*spreads[k], scale);
  }
  return column;
}

}  // namespace trireme
