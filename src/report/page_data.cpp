#include "report/page_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json_file.h"
#include "report/columns.h"
#include "report/page_timeline.h"
#include "report/quantities.h"
#include "report/run_json.h"
#include "report/verdict.h"
#include "train/compare.h"

namespace trireme {
namespace {

using nlohmann::json;

constexpr size_t kCurvePoints = 2000;  ///< a line on a screen shows no more points; longer curves are thinned
constexpr size_t kAllPoints = 16'000;  ///< of all curves together
constexpr size_t kFewestPoints = 200;  ///< of a curve, however many there are
constexpr size_t kMostEvents = 9'000;  ///< of all timelines together
constexpr size_t kMostBoxes = 16'000;  ///< of all schedules together
constexpr int kDigits = 6;             ///< of numbers in curves

/// Returns the number with kDigits significant digits.
json short_number(double value) {
  if (!std::isfinite(value) || value == 0) return json_number(value);
  const double scale = std::pow(10.0, kDigits - 1 - std::floor(std::log10(std::abs(value))));
  return json_number(std::isfinite(scale) ? std::round(value * scale) / scale : value);
}

/// Step, seconds, loss, learning rate (0: not known, in files of older versions) and norm of the gradient (left out
/// where it was not measured).
json point_json(const CurvePoint& point) {
  json numbers = {point.step, short_number(point.seconds), short_number(point.loss), short_number(point.learning_rate)};
  if (point.gradient_norm) numbers.push_back(short_number(*point.gradient_norm));
  return numbers;
}

/// Returns every k-th point and the last one, after those of earlier runs.
json curve_json(std::vector<CurvePoint> curve, const RunResult& row, size_t most) {
  curve.insert(curve.end(), row.curve.begin(), row.curve.end());
  json points = json::array();
  const size_t stride = std::max<size_t>(1, (curve.size() + most - 1) / most);
  for (size_t i = 0; i < curve.size(); ++i)
    if (i % stride == 0 || i + 1 == curve.size()) points.push_back(point_json(curve[i]));
  return points;
}

/// Puts the evaluations of earlier runs before the row's own.
void add_earlier_evaluations(const EarlierRun& earlier, json& out) {
  if (earlier.evaluations.empty()) return;
  RunResult before;
  before.evaluations = earlier.evaluations;
  json all = row_to_json(before).at("evaluations");
  for (json& evaluation : out.at("evaluations")) all.push_back(std::move(evaluation));
  out["evaluations"] = std::move(all);
}

/// Converts boxes to lists, which are much shorter than objects.
json schedule_of(json schedule) {
  for (json& row : schedule.at("rows"))
    for (json& box : row.at("boxes"))
      box = {box.at("begin"), box.at("end"), box.at("kind"), box.at("stage"), box.at("micro_batch"), box.at("batch")};
  return schedule;
}

size_t boxes_of(const json& schedule) {
  size_t boxes = 0;
  for (const json& row : schedule.at("rows")) boxes += row.at("boxes").size();
  return boxes;
}

std::string times_of_row(const ExperimentResult& result, const RunResult& row) {
  if (!result.simulated.empty()) return "simulated";
  return is_in_real_time(row) ? "measured" : "modelled";
}

/// Returns the names and scales of the metrics in the chart: those of the evaluations except single classes, the main
/// metric first.
json metric_kinds(const std::vector<PageRun>& runs) {
  json kinds = json::array();
  std::vector<std::string> known;
  for (const PageRun& run : runs)
    for (const RunResult& row : run.run.result->rows)
      for (const Metric& metric : row.evaluations.empty() ? std::vector<Metric>{} : row.evaluations.front().metrics) {
        const MetricKind kind = kind_of_metric(metric.name);
        if (kind.is_per_class || std::find(known.begin(), known.end(), metric.name) != known.end()) continue;
        known.push_back(metric.name);
        kinds.push_back({{"name", metric.name}, {"title", kind.title}, {"is_share", kind.is_share}});
      }
  return kinds;
}

/// Returns the indices of the result's rows, those of the verdict's fastest ones first.
std::vector<size_t> by_pace(const ExperimentResult& result) {
  std::vector<const RunResult*> rows;
  for (const RunResult& row : result.rows)
    if (clock_of(row) == clock_of(result.rows.front())) rows.push_back(&row);
  const Verdict verdict = verdict_of(rows, result.simulated.empty());
  std::vector<size_t> order;
  for (const RunResult* row : verdict.fastest) order.push_back(size_t(row - result.rows.data()));
  if (verdict.next) order.push_back(size_t(verdict.next - result.rows.data()));
  return order;
}

/// Writes the rows of one run. Timelines and schedules are limited by what is left for the page.
class RowWriter {
 public:
  RowWriter(const PageRun& run, size_t index, size_t curve_points)
      : result_(*run.run.result),
        earlier_(run.run.earlier.run),
        name_(run.name.empty() ? "" : run.name + " "),
        run_(index),
        curve_points_(curve_points) {}

  json row(size_t i, const json& written) const {
    const RunResult& row = result_.rows[i];
    json out = written;
    out["run"] = run_;
    out["variant"] = variant_name(row);
    out["label"] = name_ + row_name(row);
    out["times_are"] = times_of_row(result_, row);
    out["short_label"] = fmt::format("{}{}, {}", name_, variant_name(row), row.devices);
    out["curve"] = curve_json(earlier_.curve, row, curve_points_);
    for (json& use : out["memory_bytes"]) use.erase("at_end");
    for (const char* unused : {"test", "test_at_equal_samples", "test_at_equal_time", "plan", "warnings"})
      out.erase(unused);
    add_earlier_evaluations(earlier_, out);
    out["timeline"] = out["schedule"] = nullptr;
    return out;
  }

  void add_drawings(size_t i, size_t& events_left, size_t& boxes_left, json& out) const {
    const RunResult& row = result_.rows[i];
    if (row.timeline) {
      json timeline = page_timeline(*row.timeline);
      const size_t events = timeline.at("events").size();
      out["timeline_left_out"] = events > events_left;
      if (events <= events_left) {
        events_left -= events;
        out["timeline"] = std::move(timeline);
      }
    }
    if (!row.schedule) return;
    const size_t boxes = boxes_of(*row.schedule);
    out["schedule_left_out"] = boxes > boxes_left;
    if (boxes > boxes_left) return;
    boxes_left -= boxes;
    out["schedule"] = schedule_of(*row.schedule);
  }

 private:
  const ExperimentResult& result_;
  const EarlierRun& earlier_;
  std::string name_;
  size_t run_;
  size_t curve_points_;
};

}  // namespace

std::vector<std::string> times_are(const ExperimentResult& result) {
  std::vector<std::string> words;
  for (const RunResult& row : result.rows)
    if (std::string word = times_of_row(result, row); std::find(words.begin(), words.end(), word) == words.end())
      words.push_back(std::move(word));
  if (words.empty()) words.push_back(times_of_row(result, RunResult()));
  return words;
}

json page_data(const std::vector<PageRun>& runs) {
  json data = to_json(*runs.front().run.result);
  data["seed"] = fmt::format("{}", runs.front().run.result->seed);  // JavaScript's numbers hold 53 bits
  size_t count = 0;
  for (const PageRun& run : runs) count += run.run.result->rows.size();
  const size_t points = std::clamp(kAllPoints / std::max<size_t>(count, 1), kFewestPoints, kCurvePoints);
  json rows = json::array(), fastest = json::array(), names = json::array();
  size_t events_left = kMostEvents, boxes_left = kMostBoxes;
  bool simulated = true;
  for (size_t r = 0; r < runs.size(); ++r) {
    const ExperimentResult& result = *runs[r].run.result;
    const RowWriter writer(runs[r], r, points);
    const json written = to_json(result).at("rows");
    const size_t first = rows.size();
    for (size_t i = 0; i < result.rows.size(); ++i) rows.push_back(writer.row(i, written.at(i)));
    std::vector<size_t> order = result.rows.empty() ? std::vector<size_t>{} : by_pace(result);
    for (const size_t i : order) fastest.push_back(first + i);
    for (size_t i = 0; i < result.rows.size(); ++i)
      if (std::find(order.begin(), order.end(), i) == order.end()) order.push_back(i);
    for (const size_t i : order) writer.add_drawings(i, events_left, boxes_left, rows.at(first + i));
    names.push_back({{"name", runs[r].name}, {"folder", runs[r].run.folder}});
    simulated &= !result.simulated.empty();
  }
  if (!simulated) data["simulated"] = "";
  data.update({{"rows", std::move(rows)}, {"fastest", std::move(fastest)}, {"runs", std::move(names)}});
  data["metrics"] = metric_kinds(runs);
  return data;
}

}  // namespace trireme
