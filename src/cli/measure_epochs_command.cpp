#include "cli/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "base/units.h"
#include "cli/text_table.h"
#include "experiment/run_spec.h"
#include "report/progress.h"
#include "train/measure_epochs.h"
#include "train/trainer.h"
#include "trireme/error.h"

namespace trireme {
namespace {

RateRule rate_rule(const std::string& name) {
  for (RateRule rule : {RateRule::linear, RateRule::square_root, RateRule::fixed})
    if (name == name_of(rule)) return rule;
  fail_user({"--rate", name, "there is no such rule", "use linear, sqrt or fixed"});
}

/// Reads the known measurements. Errors (user): they were made with other settings.
EpochsFile open_file(const std::filesystem::path& path, const nlohmann::json& settings) {
  EpochsFile file;
  file.settings = settings;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return file;
  file = read_epochs_file(path);
  std::vector<std::string> other;
  for (const auto& [key, value] : settings.items())
    if (!file.settings.contains(key) || file.settings.at(key) != value)
      other.push_back(fmt::format(
          "{} {}, not {}", key, file.settings.contains(key) ? file.settings.at(key).dump() : "unknown", value.dump()));
  if (!other.empty())
    fail_user({path.string(), "was measured with other settings", join(other), "name another file with --out"});
  return file;
}

class Bar : public TrainObserver {
 public:
  Bar(Progress& progress, std::string name) : progress_(progress), name_(std::move(name)) {}
  void on_step(const StepReport& report) override { progress_.update(name_, report); }

 private:
  Progress& progress_;
  std::string name_;
};

std::string table_of(const EpochsFile& file) {
  std::vector<std::vector<std::string>> rows;
  for (const EpochsMeasurement& m : file.measurements)
    rows.push_back({std::to_string(m.point.batch), std::to_string(m.micro_batches),
                    fmt::format("{:.4g}", m.learning_rate), std::to_string(m.steps), fmt::format("{:.2f}", m.trained),
                    format_seconds(m.seconds), m.noise_scale ? fmt::format("{:.0f}", *m.noise_scale) : "",
                    m.point.epochs     ? "reached"
                    : m.remark.empty() ? "not reached"
                                       : "not reached: " + m.remark});
  return text_table({"batch", "micro-batches", "learning rate", "steps", "epochs", "time", "noise scale", "target"},
                    rows, {0, 1, 2, 3, 4, 5, 6});
}

std::string fit_in_words(const EpochsFile& file) {
  std::vector<EpochsPoint> points;
  for (const EpochsMeasurement& m : file.measurements) points.push_back(m.point);
  const auto fit = fit_noise_model(points);
  if (!fit) return "";
  return fmt::format(
      "fit: epochs = {:.3g} (1 + batch / {:.0f}), within {:.0f} % of every batch that reached the target\n",
      fit->model.least_epochs, fit->model.noise_scale, 100 * fit->worst);
}

/// Adds one batch to the file's measurements. Returns false if it ended before there was anything to add.
bool measure(const RunSpec& experiment, const Model& model, const TaskData& data, int64_t batch,
             const EpochsRequest& request, EpochsFile& file) {
  const std::string name = fmt::format("batch {}", batch);
  std::optional<EpochsMeasurement> measured;
  {
    Progress progress;
    progress.begin(name, 0);
    Bar bar(progress, name);
    measured = measure_epochs(experiment, model, data, batch, request, bar, interrupted_by_user());
  }
  if (!measured) {
    std::cout << name << ": ended early by the time limit or the user, without reaching the target; not kept\n";
    return false;
  }
  file.measurements.push_back(*measured);
  std::sort(file.measurements.begin(), file.measurements.end(),
            [](const EpochsMeasurement& a, const EpochsMeasurement& b) { return a.point.batch < b.point.batch; });
  return true;
}

}  // namespace

int run_measure_epochs(const MeasureEpochsOptions& options) {
  interrupted_by_user();
  RunSpec experiment{options.experiment.read()};
  const std::filesystem::path path =
      options.out.empty() ? std::filesystem::path(experiment.name + ".epochs.json") : options.out;
  check_target("--out", path);
  const TaskData data = open_data(experiment.data);
  EpochsRequest request;
  request.rate = rate_rule(options.rate);
  request.micro_batch = options.micro_batch;
  if (!options.experiment.devices.empty()) request.devices = options.experiment.devices.front();
  check_epochs_request(experiment, data, options.batches, request);
  const Model model = with_initial_weights(experiment, build_model(experiment, data));
  EpochsFile file = open_file(path, epochs_settings(experiment, data, request));
  bool complete = true;
  for (int64_t batch : options.batches) {
    const auto same = [&](const EpochsMeasurement& m) { return m.point.batch == batch; };
    if (std::any_of(file.measurements.begin(), file.measurements.end(), same)) continue;
    const bool added = !interrupted_by_user() && measure(experiment, model, data, batch, request, file);
    complete &= added;
    if (added) write_epochs_file(file, path);
  }
  std::cout << table_of(file) << fit_in_words(file) << fmt::format("written to {}\n", path.string());
  return complete ? 0 : 1;
}

}  // namespace trireme
