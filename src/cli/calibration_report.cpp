#include "cli/calibration_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/text_table.h"

namespace trireme {
namespace {

constexpr double kPercent = 100;
constexpr size_t kMostNamed = 3;
constexpr double kCounts = 0.3;  // a row is named if its weight is at least this share of the greatest

double error_of(double predicted, double measured) { return predicted / measured - 1; }
std::string percent(double share) { return fmt::format("{:+.1f} %", kPercent * share); }

/// Returns the names of the rows that were fitted, in the order of the fit.
std::vector<std::string> fitted_rows(const CalibrationReport& report) {
  std::vector<std::string> names;
  for (const CalibratedRow& row : report.rows)
    if (!row.is_held) names.push_back(row.name);
  return names;
}

/// The rows that weigh most, the heaviest first.
std::vector<std::string> deciding_rows(const CalibrationReport& report, const FittedConstant& fitted) {
  const std::vector<std::string> names = fitted_rows(report);
  std::vector<size_t> order;
  double greatest = 0;
  for (const double weight : fitted.weights) greatest = std::max(greatest, std::abs(weight));
  for (size_t row = 0; row < names.size(); ++row)
    if (greatest > 0 && std::abs(fitted.weights[row]) >= kCounts * greatest) order.push_back(row);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return std::abs(fitted.weights[a]) > std::abs(fitted.weights[b]); });
  std::vector<std::string> rows;
  rows.reserve(order.size());
  for (const size_t row : order) rows.push_back(names[row]);
  return rows;
}

std::string in_short(std::vector<std::string> names) {
  const size_t more = names.size() > kMostNamed ? names.size() - kMostNamed : 0;
  names.resize(names.size() - more);
  return join(names) + (more > 0 ? fmt::format(" and {} more", more) : "");
}

std::vector<std::string> keys_of(const CalibrationReport& report, const std::vector<size_t>& constants) {
  std::vector<std::string> keys;
  keys.reserve(constants.size());
  for (const size_t i : constants) keys.push_back(report.constants[i].key);
  return keys;
}

std::string reason_in_words(const CalibrationReport& report, const LeftConstant& left) {
  const size_t rows = fitted_rows(report).size();
  switch (left.reason) {
    case LeftOut::no_effect: return "no row depends on it";
    case LeftOut::little_effect:
      return fmt::format("rows hardly depend on it: 10 % more changes no step by more than {:.2g} %",
                         std::max(0.01, 10 * left.sensitivity));
    case LeftOut::alike:
      return fmt::format("these rows cannot tell it apart from {}", join(keys_of(report, left.others), " and "));
    case LeftOut::too_few_rows:
      return fmt::format("{} {} no more than {}", counted(int64_t(rows), "row"), rows == 1 ? "determines" : "determine",
                         counted(int64_t(report.fit.fitted.size()), "constant"));
    case LeftOut::no_better: return "with it, rows that are left out are not predicted better";
  }
  return "";
}

const char* name_of(LeftOut reason) {
  switch (reason) {
    case LeftOut::no_effect: return "no effect";
    case LeftOut::little_effect: return "little effect";
    case LeftOut::alike: return "alike";
    case LeftOut::too_few_rows: return "too few rows";
    case LeftOut::no_better: return "no better";
  }
  return "";
}

struct MeanErrors {
  int64_t rows = 0;
  double before = 0, after = 0, left_out = 0;
};

/// Means of the errors' absolute values.
MeanErrors mean_errors(const CalibrationReport& report, bool held) {
  MeanErrors mean;
  for (const CalibratedRow& row : report.rows) {
    if (row.is_held != held) continue;
    ++mean.rows;
    mean.before += std::abs(error_of(row.before, row.measured));
    mean.after += std::abs(error_of(row.after, row.measured));
    if (row.left_out) mean.left_out += std::abs(error_of(*row.left_out, row.measured));
  }
  for (double* sum : {&mean.before, &mean.after, &mean.left_out}) *sum /= double(std::max<int64_t>(1, mean.rows));
  return mean;
}

std::string row_table(const CalibrationReport& report) {
  std::vector<std::vector<std::string>> cells;
  for (const CalibratedRow& row : report.rows)
    cells.push_back({row.name, format_seconds(row.measured), format_seconds(row.before),
                     percent(error_of(row.before, row.measured)), format_seconds(row.after),
                     percent(error_of(row.after, row.measured)),
                     row.is_held    ? "held"
                     : row.left_out ? percent(error_of(*row.left_out, row.measured))
                                    : ""});
  return text_table({"row", "measured", "before", "error", "after", "error", "left out"}, cells, {1, 2, 3, 4, 5, 6});
}

std::string means_in_words(const CalibrationReport& report) {
  const MeanErrors seen = mean_errors(report, false), held = mean_errors(report, true);
  std::string text = fmt::format("mean absolute error of {}: {:.1f} % before, {:.1f} % after",
                                 counted(seen.rows, "row"), kPercent * seen.before, kPercent * seen.after);
  if (!report.fit.left_out.empty())
    text += fmt::format("; {:.1f} % where a fit without the row predicts it", kPercent * seen.left_out);
  text += "\n";
  if (held.rows > 0)
    text += fmt::format("mean absolute error of {} that {} not fitted: {:.1f} % before, {:.1f} % after\n",
                        counted(held.rows, "row"), held.rows == 1 ? "was" : "were", kPercent * held.before,
                        kPercent * held.after);
  return text;
}

std::string fitted_table(const CalibrationReport& report) {
  std::vector<std::vector<std::string>> cells;
  for (const FittedConstant& fitted : report.fit.fitted) {
    const CalibratedConstant& constant = report.constants[fitted.constant];
    cells.push_back({constant.key, constant.before, constant.after,
                     fitted.is_at_bound ? "at its limit"
                     : fitted.error     ? fmt::format("{:.2g} %", kPercent * *fitted.error)
                                        : "",
                     in_short(deciding_rows(report, fitted))});
  }
  return cells.empty() ? "nothing was fitted\n"
                       : text_table({"fitted", "before", "after", "std. error", "determined by"}, cells, {1, 2, 3});
}

std::string left_table(const CalibrationReport& report) {
  std::vector<std::vector<std::string>> cells;
  for (const LeftConstant& left : report.fit.left)
    cells.push_back(
        {report.constants[left.constant].key, report.constants[left.constant].before, reason_in_words(report, left)});
  return cells.empty() ? "" : "\n" + text_table({"left", "value", "why"}, cells, {1});
}

}  // namespace

std::string calibration_text(const CalibrationReport& report) {
  return fmt::format("{}\n{}\n{}{}", row_table(report), means_in_words(report), fitted_table(report),
                     left_table(report));
}

nlohmann::json calibration_json(const CalibrationReport& report) {
  nlohmann::json rows = nlohmann::json::array(), fitted = rows, left = rows;
  for (const CalibratedRow& row : report.rows)
    rows.push_back({{"name", row.name},
                    {"plan", row.plan},
                    {"devices", row.devices},
                    {"measured", row.measured},
                    {"before", row.before},
                    {"after", row.after},
                    {"left_out", row.left_out ? nlohmann::json(*row.left_out) : nlohmann::json(nullptr)},
                    {"held", row.is_held}});
  for (const FittedConstant& one : report.fit.fitted) {
    const CalibratedConstant& constant = report.constants[one.constant];
    fitted.push_back({{"key", constant.key},
                      {"before", constant.value_before},
                      {"after", constant.value_after},
                      {"standard_error", one.error ? nlohmann::json(*one.error) : nlohmann::json(nullptr)},
                      {"at_limit", one.is_at_bound},
                      {"determined_by", deciding_rows(report, one)}});
  }
  for (const LeftConstant& one : report.fit.left) {
    const CalibratedConstant& constant = report.constants[one.constant];
    left.push_back({{"key", constant.key},
                    {"value", constant.value_before},
                    {"reason", name_of(one.reason)},
                    {"why", reason_in_words(report, one)},
                    {"others", keys_of(report, one.others)}});
  }
  const MeanErrors seen = mean_errors(report, false), held = mean_errors(report, true);
  nlohmann::json means{{"before", seen.before}, {"after", seen.after}};
  if (!report.fit.left_out.empty()) means["left_out"] = seen.left_out;
  if (held.rows > 0) means["held"] = {{"before", held.before}, {"after", held.after}};
  return {{"version", 1},
          {"cluster", report.cluster},
          {"rows_file", report.rows_file},
          {"rows", rows},
          {"fitted", fitted},
          {"left", left},
          {"mean_absolute_error", means}};
}

}  // namespace trireme
