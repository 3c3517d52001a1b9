#include "report/earlier_run.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>

#include "base/json_file.h"
#include "report/files.h"

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

}  // namespace

EarlierRun rewind_metrics(const fs::path& run_folder, const GoesOnFrom& from, const std::vector<std::string>& metrics) {
  EarlierRun earlier;
  const fs::path file = run_folder / "metrics.jsonl";
  if (!fs::exists(file)) return earlier;
  const std::string text = read_file(file);
  std::string kept;
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != text.npos; begin = end + 1) {
    const json line = json::parse(text.begin() + std::ptrdiff_t(begin), text.begin() + std::ptrdiff_t(end), nullptr,
                                  /*allow_exceptions=*/false);
    if (!line.is_object()) continue;
    const int64_t step = line.value("step", from.step + 1);
    const std::string kind = line.value("kind", "");
    if (step > from.step || (step == from.step && from.awaits_evaluation && kind == "test")) continue;
    if (kind == "step")
      earlier.curve.push_back({line.at("step").get<int64_t>(), line.at("samples").get<int64_t>(),
                               number_from(line.at("seconds")), number_from(line.at("loss"))});
    else if (kind == "test") earlier.evaluations.push_back(evaluation_from(line, metrics));
    else continue;  // final metrics will be measured again
    kept.append(text, begin, end + 1 - begin);
  }
  if (kept != text) write_file_atomically(file, kept);
  return earlier;
}

void add_earlier(const EarlierRun& earlier, RunResult& row) {
  row.curve.insert(row.curve.begin(), earlier.curve.begin(), earlier.curve.end());
  row.evaluations.insert(row.evaluations.begin(), earlier.evaluations.begin(), earlier.evaluations.end());
  if (!row.evaluations.empty()) row.test = row.evaluations.back();
  if (!row.target) return;
  for (const EvaluationPoint& point : earlier.evaluations)
    if (std::isfinite(point.loss) && point.main() && reaches(*point.main(), *row.target)) {
      row.to_target = ToTarget{point.step, point.epoch, point.seconds};
      return;
    }
}

}  // namespace trireme
