#include "report/run_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/json_file.h"
#include "experiment/initial_weights.h"
#include "model/weights/safetensors.h"
#include "report/earlier_run.h"
#include "report/html.h"
#include "report/run_json.h"
#include "report/trace.h"
#include "trireme/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kIndent = 1;  // one row's curve has a thousand points: a small indent is still readable
constexpr int kMaxNames = 10000;

std::string running_text(const ExperimentResult& result) {
  json j = to_json(result);
  j["status"] = "running";
  return json_text(j, kIndent) + "\n";
}

/// Returns true if `path` now belongs to this run: an empty or new folder in which this call created run.json first.
bool claim(const fs::path& path) {
  std::error_code error;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  if (!error) fs::create_directory(path, error);
  if (error && fs::exists(path)) return false;  // a file of that name
  if (error)
    fail_user({path.string(), "cannot create the run's folder", error.message(), "choose another place with --out"});
  if (!fs::is_empty(path)) return false;
  return create_file(path / "run.json", running_text({}));
}

[[noreturn]] void refuse(const fs::path& path) {
  if (!fs::is_directory(path))
    fail_user({path.string(), "is a file", "a run writes a folder", "name a folder with --out"});
  fail_user({path.string(), "exists already and is not empty", "a run never overwrites another one",
             "choose another folder with --out, or remove this one"});
}

}  // namespace

void check_run_folder(const fs::path& path) {
  std::error_code error;
  const bool exists = fs::exists(path, error);
  if (!exists || error) return;  // a folder that cannot be read is reported later, when the run writes to it
  const bool taken = !fs::is_directory(path, error) || !fs::is_empty(path, error);
  if (taken && !error) refuse(path);
}

fs::path rank_log(const fs::path& folder, int rank) { return folder / "logs" / fmt::format("rank-{}.log", rank); }

fs::path default_run_path(std::string_view experiment, std::string_view started) {
  std::string name;
  for (char c : experiment) {
    auto u = static_cast<unsigned char>(c);
    name.push_back(std::isalnum(u) || c == '_' || c == '-' || c == '.' ? c : '-');
  }
  if (name.empty() || name.front() == '.') name = "run" + name;
  std::string time;
  for (char c : started) {
    if (std::isdigit(static_cast<unsigned char>(c))) time.push_back(c);
    if (c == 'T') time.push_back('-');
    if (c == '.') break;
  }
  return fs::path("runs") / (time.empty() ? name : name + "-" + time);
}

RunFolder::RunFolder(fs::path path, IfExists if_exists) : path_(std::move(path)) {
  if (path_.filename().empty()) path_ = path_.parent_path();  // "out/" is "out"
  if (claim(path_)) return;
  if (if_exists == IfExists::go_on) {
    write_file_atomically(path_ / "run.json", running_text({}));
    return;
  }
  if (if_exists == IfExists::refuse) refuse(path_);
  fs::path wanted = path_;
  for (int i = 2; i < kMaxNames; ++i) {
    path_ = wanted;
    path_ += fmt::format("-{}", i);
    if (claim(path_)) return;
  }
  fail_user({wanted.string(), "no free name for the run's folder", fmt::format("{} names are taken", kMaxNames),
             "choose another folder with --out"});
}

RunFolder::~RunFolder() = default;

void RunFolder::update(const ExperimentResult& so_far) {
  write_file_atomically(path_ / "run.json", running_text(so_far));
}

void RunFolder::finish(const ExperimentResult& result) {
  std::optional<Error> failure;  // for a file that is not essential, or that can be created again from run.json
  const auto attempt = [&](const auto& write) {
    try {
      write();
    } catch (const Error& error) {
      if (!failure) failure = error;
    }
  };
  attempt([&] {
    if (metrics_ && result.rows.size() == 1) write_final_metrics(result.rows.front());
  });
  const bool traced =
      std::any_of(result.rows.begin(), result.rows.end(), [](const RunResult& r) { return r.timeline.has_value(); });
  attempt([&] {
    if (traced) write_file_atomically(path_ / "trace.json", json_text(trace_json(result)) + "\n");
  });
  attempt([&] {
    write_file_atomically(path_ / "report.html", html_report({&result, path_.string(), earlier_steps(path_, result)}));
  });
  write_file_atomically(path_ / "run.json",
                        // last: "finished" means that all files that could be written exist.
                        json_text(to_json(result), kIndent) + "\n");
  if (failure) throw *failure;
}

void RunFolder::write_plan(std::string_view text) { write_file_atomically(path_ / "plan.json", text); }

void RunFolder::write_inputs(const InputForm& inputs) { write_json_file(path_ / kInputsFile, to_json(inputs)); }

void RunFolder::open_metrics() {
  if (!metrics_) metrics_ = std::make_unique<AppendFile>(path_ / "metrics.jsonl");
  if (!events_) events_ = std::make_unique<EventWriter>(path_);
}

void RunFolder::on_step(const StepReport& report) {
  open_metrics();
  json line = {{"kind", "step"},
               {"step", report.point.step},
               {"samples", report.point.samples},
               {"seconds", json_number(report.point.seconds)},
               {"loss", json_number(report.point.loss)},
               {"learning_rate", json_number(report.point.learning_rate)},
               {"step_seconds", json_number(report.step_seconds)},
               {"samples_per_second", json_number(report.samples_per_second)}};
  std::vector<Scalar> scalars = {{"train/loss", report.point.loss},
                                 {"train/learning_rate", report.point.learning_rate},
                                 {"train/step_seconds", report.step_seconds},
                                 {"train/samples_per_second", report.samples_per_second}};
  if (const std::optional<double>& norm = report.point.gradient_norm) {
    line["gradient_norm"] = json_number(*norm);
    scalars.push_back({"train/gradient_norm", *norm});
  }
  metrics_->append(json_text(line) + "\n");
  events_->scalars(report.point.step, scalars);
}

void RunFolder::on_evaluation(const EvaluationPoint& point) {
  write_metrics({{"kind", "test"},
                 {"step", point.step},
                 {"samples", point.samples},
                 {"epoch", json_number(point.epoch)},
                 {"seconds", json_number(point.seconds)},
                 {"loss", json_number(point.loss)}},
                point.step, point.metrics, point.loss);
}

void RunFolder::on_weights(const Weights& weights) {
  write_safetensors(path_ / kWeightsFile, weights.tensors, weights.metadata);
}

void RunFolder::write_final_metrics(const RunResult& row) {
  if (row.final_metrics.empty() || row.curve.empty()) return;
  const int64_t step = row.curve.back().step;
  write_metrics({{"kind", "final"}, {"step", step}}, step, row.final_metrics, std::nullopt);
}

/// Writes a line of metrics.jsonl that begins with `line`, and a TensorBoard event.
void RunFolder::write_metrics(json line, int64_t step, const std::vector<Metric>& metrics, std::optional<double> loss) {
  open_metrics();
  std::vector<Scalar> scalars;
  if (loss) scalars.push_back({"test/loss", *loss});
  std::vector<std::string> tags;
  tags.reserve(metrics.size());  // scalars refer to these strings
  for (const Metric& metric : metrics) {
    line[metric.name] = json_number(metric.value);
    if (std::isfinite(metric.value)) scalars.push_back({tags.emplace_back("test/" + metric.name), metric.value});
  }
  metrics_->append(json_text(line) + "\n");
  events_->scalars(step, scalars);
}

}  // namespace trireme
