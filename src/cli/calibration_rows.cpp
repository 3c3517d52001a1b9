#include "cli/calibration_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/text_parts.h"
#include "cli/described_devices.h"
#include "cli/options.h"
#include "cli/plan_choice.h"
#include "data/open.h"
#include "experiment/batches.h"
#include "forecast/predict.h"
#include "forecast/predictions.h"
#include "plan/strategies.h"
#include "plan/toml_text.h"
#include "trireme/config.h"
#include "trireme/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// Appends the values of a table as assignments: "model.options.layers=24".
void collect_assignments(const ConfigTable& set, const nlohmann::json& values, const std::string& prefix,
                         std::vector<std::string>& assignments) {
  for (const auto& [key, value] : values.items()) {
    const std::string path = prefix + key;
    if (value.is_object()) {
      collect_assignments(set, value, path + ".", assignments);
      continue;
    }
    set.has(path);  // it is known: the experiment checks it
    assignments.push_back(
        fmt::format("{}={}", path, value.is_string() ? toml_string(value.get<std::string>()) : value.dump()));
  }
}

double seconds_of(const ConfigTable& row) {
  const bool has_unit = row.has("seconds") && row.to_json().at("seconds").is_string();
  const double seconds = has_unit ? row.get_seconds("seconds", 0) : row.require_double("seconds");
  if (!(seconds > 0)) row.fail("seconds", "it must be more than zero", "give the measured seconds of one step");
  return seconds;
}

/// A plan file beside the rows, or the strategy as it is written.
std::string plan_of(const ConfigTable& row, const fs::path& folder) {
  const std::string plan = row.require_string("plan");
  std::error_code ignored;
  const bool is_file = fs::path(plan).extension() == ".json" || fs::is_regular_file(folder / plan, ignored);
  return is_file ? (folder / plan).string() : plan;
}

MeasuredRow read_row(const ConfigTable& table, const fs::path& path, size_t number) {
  MeasuredRow row;
  row.name = table.get_string("name", fmt::format("row {}", number));
  row.where = fmt::format("{}: {}", path.string(), row.name);
  row.experiment = path.parent_path() / table.require_string("experiment");
  std::error_code ignored;
  if (!fs::is_regular_file(row.experiment, ignored))
    table.fail("experiment", fmt::format("there is no file {}", row.experiment.string()),
               "give the path of an experiment from the folder of this file");
  const ConfigTable set = table.table("set");
  collect_assignments(set, set.to_json(), "", row.set);
  row.plan = plan_of(table, path.parent_path());
  row.devices = int(std::min<int64_t>(table.get_int("devices", 0, 1), kMaxPlanDevices + 1));
  if (row.devices > kMaxPlanDevices)
    table.fail("devices", fmt::format("a plan has at most {} devices", kMaxPlanDevices), "correct it");
  row.seconds = seconds_of(table);
  return row;
}

/// Throws the error again, with another place.
[[noreturn]] void fail_at(std::string where, const Error& error) {
  Diagnosis diagnosis = error.diagnosis();
  diagnosis.where = std::move(where);
  if (error.blame() == Blame::user) fail_user(std::move(diagnosis));
  fail_run(std::move(diagnosis));
}

/// Throws the error again, with the row in front of it.
[[noreturn]] void fail_row(const std::string& where, const Error& error) {
  const std::string& inner = error.diagnosis().where;
  fail_at(inner.empty() ? where : fmt::format("{}: {}", where, inner), error);
}

/// Counts the row of a place from 1, as a user does, and names it: "row[0].seconds" becomes "row 1 (wide): seconds".
std::string with_row_counted(const std::string& where, const std::vector<ConfigTable>& rows) {
  constexpr std::string_view kRow = ": row[";
  const size_t begin = where.rfind(kRow), close = begin == where.npos ? begin : where.find(']', begin);
  if (close == where.npos) return where;
  const size_t digits = begin + kRow.size();
  const auto index = number_in<int64_t>(std::string_view(where).substr(digits, close - digits));
  if (!index || *index < 0 || *index >= int64_t(rows.size())) return where;
  std::string text = fmt::format("{}: row {}", where.substr(0, begin), *index + 1);
  const nlohmann::json values = rows[size_t(*index)].to_json();
  if (const auto name = values.find("name"); name != values.end() && name->is_string())
    text += fmt::format(" ({})", name->get<std::string>());
  const std::string key = where.substr(close + 1);
  return key.starts_with('.') ? fmt::format("{}: {}", text, key.substr(1)) : text + key;
}

template <typename Work>
auto for_row(const std::string& where, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    fail_row(where, error);
  }
}

RunSpec experiment_of(const MeasuredRow& row, const RowReading& reading) {
  ExperimentOptions options;
  options.experiment = row.experiment;
  options.set = row.set;
  options.data_dir = reading.data_dir;
  options.trust = reading.trust;
  options.strategies = {row.plan};
  if (row.devices > 0) options.devices = {row.devices};
  RunSpec experiment{options.read_for_devices()};
  CostSourceOptions costs;
  costs.cluster = reading.cluster;
  check_described_devices(experiment.strategies, "plan",
                          *std::max_element(experiment.devices.begin(), experiment.devices.end()), options, experiment,
                          costs);
  return of_row(experiment, row.plan, experiment.devices.front());
}

TaskData data_of_row(const RunSpec& experiment, RowReading& reading, Progress& progress) {
  TaskData data = in_phase(&progress, "reading the data", [&] { return open_data_or_shape(experiment.data); });
  if (!has_samples(*data.train) && reading.told.insert(data.source).second)
    std::cerr << fmt::format("trireme: data: {}\n", data.source);
  check_batch(experiment, data);
  return data;
}

Job only_job(const MeasuredRow& row, const RunSpec& experiment, const Model& model) {
  const std::vector<Job> jobs = list_jobs(experiment, model, /*to_run=*/false);
  if (jobs.size() != 1)
    fail_user({"plan", row.plan, fmt::format("it denotes {} plans", jobs.size()),
               "name one plan, and its number of devices: devices = 8"});
  if (row.devices > 0 && jobs.front().devices != row.devices)
    fail_user({"devices", std::to_string(row.devices),
               fmt::format("the plan {} has {}", row.plan, jobs.front().devices), "correct one of the two"});
  return jobs.front();
}

RowsFile rows_of(const ConfigTable& file, const std::vector<ConfigTable>& tables, const fs::path& path) {
  RowsFile read{.rows = {}, .source = file.get_string("source", "")};
  std::set<std::string> names;
  for (const ConfigTable& table : tables) {
    read.rows.push_back(read_row(table, path, read.rows.size() + 1));
    if (!names.insert(read.rows.back().name).second)
      table.fail("name", "another row has this name", "give each row its own");
  }
  file.finish();
  if (read.rows.empty())
    file.fail("row", "there is no row", "add measured steps: [[row]] with experiment, plan, devices and seconds");
  return read;
}

}  // namespace

RowsFile read_rows(const fs::path& path) {
  const ConfigTable file = ConfigTable::from_file(path);
  const std::vector<ConfigTable> tables = file.tables("row");
  try {
    return rows_of(file, tables, path);
  } catch (const Error& error) {
    fail_at(with_row_counted(error.diagnosis().where, tables), error);
  }
}

PredictedRow::PredictedRow(const MeasuredRow& row, const Cluster& cluster, RowReading& reading, Progress& progress)
    : PredictedRow(row, for_row(row.where, [&] { return experiment_of(row, reading); }), cluster, reading, progress) {}

PredictedRow::PredictedRow(const MeasuredRow& row, RunSpec experiment, const Cluster& cluster, RowReading& reading,
                           Progress& progress)
    : where_(row.where),
      experiment_(std::move(experiment)),
      data_(for_row(where_, [&] { return data_of_row(experiment_, reading, progress); })),
      model_(for_row(
          where_,
          [&] { return in_phase(&progress, "building the model", [&] { return build_model(experiment_, data_); }); })),
      job_(for_row(where_, [&] { return only_job(row, experiment_, model_); })) {
  for_row(where_, [&] {
    Predictions predictions(experiment_, model_, data_, cluster);
    if (const auto misfit = ruled_out(job_, experiment_, model_, data_, predictions.source(job_.devices).cluster))
      fail_user({"plan", misfit->reason, "", "correct the row"});
    plan_ = predictions.plan(job_.strategy, job_.devices);
  });
}

double PredictedRow::seconds(const Cluster& cluster, const Plan& plan) const {
  Predictions predictions(experiment_, model_, data_, cluster);
  const RunResult row = predict(experiment_, model_, plan, predictions.source(plan),
                                {.timeline = false, .drawing = false, .memory = false});
  if (!row.step_seconds)
    fail_user({where_, job_.strategy, "a step of this plan has no predicted time", "leave it out"});
  return row.step_seconds->median;
}

double PredictedRow::seconds(const Cluster& cluster) const { return seconds(cluster, plan_); }

double PredictedRow::seconds_of_own_plan(const Cluster& cluster) const {
  Predictions predictions(experiment_, model_, data_, cluster);
  return seconds(cluster, predictions.plan(job_.strategy, job_.devices));
}

}  // namespace trireme
