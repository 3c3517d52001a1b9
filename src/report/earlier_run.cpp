#include "report/earlier_run.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>

#include "base/json_file.h"
#include "base/text.h"
#include "report/files.h"
#include "train/result/repeats.h"
#include "trireme/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// All other keys are metrics.
constexpr std::array<std::string_view, 6> kOfEvaluations = {"kind", "step", "samples", "epoch", "seconds", "loss"};

/// Sorts by the order in `names`; metrics of single classes, which are not in `names`, follow by class: "iou.2" before
/// "iou.10".
void sort_metrics(std::vector<Metric>& metrics, const std::vector<std::string>& names) {
  const auto place = [&](const Metric& m) {
    return std::tuple(std::find(names.begin(), names.end(), m.name), m.name.size(), m.name);
  };
  std::sort(metrics.begin(), metrics.end(), [&](const Metric& a, const Metric& b) { return place(a) < place(b); });
}

EvaluationPoint evaluation_from(const json& line, const std::vector<std::string>& names) {
  EvaluationPoint point{.step = line.at("step").get<int64_t>(),
                        .samples = line.at("samples").get<int64_t>(),
                        .epoch = number_from(line.at("epoch")),
                        .seconds = number_from(line.at("seconds")),
                        .loss = number_from(line.at("loss"))};
  for (const auto& [key, value] : line.items())
    if (std::find(kOfEvaluations.begin(), kOfEvaluations.end(), key) == kOfEvaluations.end())
      point.metrics.push_back({key, number_from(value)});
  sort_metrics(point.metrics, names);
  return point;
}

CurvePoint curve_point_from(const json& line) {
  CurvePoint point{line.at("step").get<int64_t>(), line.at("samples").get<int64_t>(), number_from(line.at("seconds")),
                   number_from(line.at("loss"))};
  // older files lack these two
  if (line.contains("learning_rate")) point.learning_rate = number_from(line.at("learning_rate"));
  if (line.contains("gradient_norm")) point.gradient_norm = number_from(line.at("gradient_norm"));
  return point;
}

/// Calls `keep(line, text)` for each line of a file of records that does not come after `from`. Skips an incomplete
/// last line.
template <class Keep>
void for_each_line(const std::string& text, const GoesOnFrom& from, const Keep& keep) {
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != text.npos; begin = end + 1) {
    const json line = json::parse(text.begin() + std::ptrdiff_t(begin), text.begin() + std::ptrdiff_t(end), nullptr,
                                  /*allow_exceptions=*/false);
    if (!line.is_object() || !line.contains("step")) continue;
    const int64_t step = line.at("step").get<int64_t>();
    if (step > from.step || (step == from.step && from.awaits_evaluation && line.value("kind", "") == "test")) continue;
    keep(line, std::string_view(text).substr(begin, end + 1 - begin));
  }
}

/// Adds the record to the curve or to the evaluations. Returns false if it belongs to neither.
bool add_record(const json& line, const std::vector<std::string>& metrics, EarlierRun& run) {
  const std::string kind = line.value("kind", "");
  if (kind == "step") run.curve.push_back(curve_point_from(line));
  else if (kind == "test") run.evaluations.push_back(evaluation_from(line, metrics));
  else return false;
  return true;
}

/// The folder of the run that wrote the checkpoint: FOLDER/checkpoints/step-00000002, with or without a slash at the
/// end.
fs::path run_of(const fs::path& checkpoint) {
  fs::path path = fs::absolute(checkpoint).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return path.parent_path().parent_path();
}

}  // namespace

EarlierRun rewind_metrics(const fs::path& run_folder, const GoesOnFrom& from, const std::vector<std::string>& metrics) {
  EarlierRun earlier;
  const fs::path file = run_folder / "metrics.jsonl";
  if (!fs::exists(file)) return earlier;
  const std::string text = read_file(file);
  std::string kept;
  for_each_line(text, from, [&](const json& line, std::string_view bytes) {
    if (add_record(line, metrics, earlier)) kept += bytes;  // final metrics: measured again
  });
  if (kept != text) write_file_atomically(file, kept);
  return earlier;
}

std::optional<RunResult> row_from_records(const fs::path& run_folder) {
  const fs::path file = run_folder / "metrics.jsonl", plan = run_folder / "plan.json";
  if (!fs::exists(file) || !fs::exists(plan)) return std::nullopt;
  EarlierRun records;
  RunResult row;
  std::vector<double> steps;
  try {
    for_each_line(read_file(file), {.step = std::numeric_limits<int64_t>::max()},
                  [&](const json& line, std::string_view) {
                    if (!add_record(line, {}, records) || line.value("kind", "") != "step") return;
                    steps.push_back(number_from(line.at("step_seconds")));
                    row.samples_per_second = number_from(line.at("samples_per_second"));
                  });
    const json written = read_json_file(plan);
    row.strategy = row.plan = written.at("name").get<std::string>();
    row.devices = written.at("devices").get<int>() * written.value("replicas", 1);  // devices of one replica
  } catch (const json::exception& e) {
    fail_user({run_folder.string(), "plan.json or metrics.jsonl is damaged", first_line(e), "train again"});
  }
  if (records.curve.empty()) return std::nullopt;
  row.step_seconds = step_seconds_of(steps);
  row.status = RunStatus::failed;
  row.reason =
      fmt::format("ended without a result after step {}: it was killed, or it still runs", records.curve.back().step);
  add_earlier(records, row);
  return row;
}

void keep_earlier_steps(const fs::path& checkpoint, const GoesOnFrom& from, const fs::path& run_folder) {
  const fs::path earlier = run_of(checkpoint);
  std::string kept;
  bool known = false;
  try {
    for (const char* name : {kEarlierFile, "metrics.jsonl"})
      if (fs::exists(earlier / name))
        for_each_line(read_file(earlier / name), from, [&](const json& line, std::string_view bytes) {
          if (line.value("kind", "") != "final") kept += bytes;
        });
    known = fs::exists(earlier / "metrics.jsonl");
  } catch (const std::exception& error) {
    spdlog::warn("the report will begin at step {}: the records in {} cannot be read: {}", from.step, earlier.string(),
                 first_line(error));
    kept.clear();
  }
  const json join = {{"kind", "resumed"}, {"step", from.step}, {"from", checkpoint.string()}, {"known", known}};
  write_file_atomically(run_folder / kEarlierFile,
                        kept + join.dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
}

EarlierSteps earlier_steps(const fs::path& run_folder, const ExperimentResult& result) {
  const fs::path file = run_folder / kEarlierFile;
  EarlierSteps earlier;
  if (result.rows.size() != 1 || !fs::exists(file)) return earlier;
  std::vector<std::string> names;
  if (const std::vector<EvaluationPoint>& own = result.rows.front().evaluations; !own.empty())
    for (const Metric& metric : own.front().metrics) names.push_back(metric.name);
  try {
    for_each_line(
        read_file(file), {.step = std::numeric_limits<int64_t>::max()}, [&](const json& line, std::string_view) {
          if (!add_record(line, names, earlier.run) && line.value("kind", "") == "resumed")
            earlier.joins.push_back(
                {line.at("step").get<int64_t>(), line.at("from").get<std::string>(), line.at("known").get<bool>()});
        });
  } catch (const json::exception& e) {
    fail_user({file.string(), "does not hold the steps of an earlier run", first_line(e),
               "remove the file: the report then begins where the run was resumed"});
  }
  return earlier;
}

void add_earlier(const EarlierRun& earlier, RunResult& row) {
  row.curve.insert(row.curve.begin(), earlier.curve.begin(), earlier.curve.end());
  row.evaluations.insert(row.evaluations.begin(), earlier.evaluations.begin(), earlier.evaluations.end());
  if (!row.evaluations.empty() && !row.weights_of_step) row.test = row.evaluations.back();
  if (!row.target) return;
  for (const EvaluationPoint& point : earlier.evaluations)
    if (std::isfinite(point.loss) && point.main() && reaches(*point.main(), *row.target)) {
      row.to_target = ToTarget{point.step, point.epoch, point.seconds};
      return;
    }
}

}  // namespace trireme
