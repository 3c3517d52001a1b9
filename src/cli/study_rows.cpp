#include "cli/study_rows.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "base/cores.h"
#include "base/json_file.h"
#include "base/seconds.h"
#include "base/text.h"
#include "cli/child.h"
#include "cli/experiment_header.h"
#include "cli/fork_server.h"
#include "cli/row_process.h"
#include "comm/backend_list.h"
#include "data/download/download.h"
#include "experiment/batches.h"
#include "experiment/initial_weights.h"
#include "experiment/make_plan.h"
#include "experiment/run_device.h"
#include "metrics/metrics.h"
#include "plan/named.h"
#include "plan/strategies.h"
#include "plan/strategy.h"
#include "report/run_json.h"
#include "trireme/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kProbeSteps = 4;                // the first one, which is slower, does not count
constexpr double kEvaluationShare = 1.0 / 3;  // of a sample's time in training

fs::path words_file(const StudyTraining& training) {
  return training.folder.parent_path() / (training.folder.filename().string() + ".command.json");
}

/// `more`: settings of a trial. `job`: null, or the row whose global batch follows from its data degree.
ExperimentOptions options_of(const StudyRun& run, const StudyInputs& inputs, const std::vector<std::string>& more,
                             const Job* job = nullptr) {
  ExperimentOptions options;
  options.experiment = fs::weakly_canonical(run.experiment);  // the same words from every working folder
  options.phase = run.phase;
  options.set = run.settings(inputs.size);
  options.set.insert(options.set.end(), more.begin(), more.end());
  if (job && run.batch_per_worker > 0)
    options.set.push_back(fmt::format("batch={}", run.batch_per_worker * data_degree(job->strategy, job->devices)));
  else if (job) options = options_of_row(std::move(options), *job);
  if (inputs.data_dir) options.data_dir = fs::weakly_canonical(*inputs.data_dir);
  return options;
}

/// Checksums of files, by path.
using Checksums = std::map<std::string, std::string>;

/// Adds the file that a value of an experiment names, if it names one. Paths count from the experiment's folder, those
/// of plans from the working folder. `known`: of files that were read before.
void add_file(const std::string& value, const fs::path& folder, Checksums& known, Checksums& files) {
  for (const fs::path& path : {folder / value, fs::path(value)}) {
    std::error_code ignored;
    if (value.empty() || !fs::is_regular_file(path, ignored)) continue;
    const std::string file = fs::weakly_canonical(path).string();
    if (!known.contains(file)) known[file] = sha256_of(file);
    files[file] = known[file];
  }
}

void add_files_in(const json& values, const fs::path& folder, Checksums& known, Checksums& files) {
  if (values.is_string()) return add_file(values.get<std::string>(), folder, known, files);
  if (!values.is_structured()) return;
  for (const json& value : values) add_files_in(value, folder, known, files);
}

/// Returns the files that an experiment names: a model, weights, plans, and the cluster or profile of modelled time.
Checksums named_files(const Experiment& experiment, Checksums& known) {
  Checksums files;
  const fs::path folder = experiment.file.parent_path();
  if (experiment.keys) add_files_in(experiment.keys->to_json(), folder, known, files);
  if (experiment.initial_weights)  // may be a run's folder
    add_file(weights_file(experiment.initial_weights->path).string(), {}, known, files);
  return files;
}

/// Everything that determines a training: its words, the texts of the files that they name, and the files that these
/// name.
json command_of(const StudyTraining& training) {
  json files = training.files;
  for (const std::string& word : training.words) {
    if (!word.ends_with(".toml") && !word.ends_with(".json")) continue;
    std::ifstream file(word, std::ios::binary);
    files[word] = std::string(std::istreambuf_iterator<char>(file), {});
  }
  return {{"words", training.words}, {"files", files}};
}

/// The words of a training except its plan, its devices and its folder. `cluster`: may be empty.
std::vector<std::string> first_words(const fs::path& cluster, const ExperimentOptions& options) {
  std::vector<std::string> words = options.words_after({"train"});
  words.emplace_back("--messages");
  if (!cluster.empty())
    words.insert(words.end(), {"--backend", kVirtualBackend.name, "--cluster", fs::weakly_canonical(cluster).string()});
  return words;
}

std::vector<std::string> with_plan(std::vector<std::string> words, const Job& job) {
  words.insert(words.end(), {"--plan", job.strategy});
  if (!is_plan_file(job.strategy)) words.insert(words.end(), {"--devices", std::to_string(job.devices)});
  return words;
}

std::vector<std::string> with_seed(std::vector<std::string> words, int64_t seed) {
  words.insert(words.end(), {"--seed", std::to_string(seed)});
  return words;
}

double count_of(const Length& length, double steps_of_epoch) {
  return length.unit == Length::Unit::steps ? length.count : length.count * steps_of_epoch;
}

/// Sets the amount of work of a training, for the estimate of its time.
void set_work(StudyTraining& training, const StudyRun& run, const RunSpec& spec, const TaskData& data) {
  const bool policy = is_update_policy(training.job.strategy);
  const bool per_replica = policy && spec.replicas.batch_per_replica;
  const double step = double(spec.batch) * (per_replica ? training.job.devices : 1);
  const double epoch = std::max(1.0, double(data.train->size()) / step), steps = count_of(spec.length, epoch);
  training.samples = steps * step;
  const double evaluations = std::floor(steps / std::max(1.0, count_of(spec.evaluate_every, epoch)));
  training.evaluated = evaluations * double(data.test->size());
  const bool modelled = !run.cluster.empty() || (policy && spec.replicas.clock);
  const int at_once =
      spec.device == c10::DeviceType::CPU ? int(usable_cores().size()) : int(visible_devices(spec.device).size());
  training.parallel = modelled ? 1 : std::clamp(at_once, 1, training.job.devices);
}

void list_trainings(PreparedRun& prepared, const StudyInputs& inputs, const TaskData& data) {
  const StudyRun& run = *prepared.run;
  const fs::path folder = inputs.folder / run.name;
  prepared.probe = first_words({}, options_of(run, inputs, {}));
  const std::vector<int64_t>& seeds = prepared.seeds;
  Checksums known;
  for (size_t k = 0; k < prepared.jobs.size(); ++k) {
    const Job& job = prepared.jobs[k];
    const Job* trained = prepared.ruled_out[k] ? nullptr : &job;
    const ExperimentOptions options = options_of(run, inputs, {}, trained);
    StudyTraining row{
        .job = job, .words = with_plan(first_words(run.cluster, options), job), .folder = folder / job.folder};
    row.job.label = fmt::format("{}: {}", run.name, job.label);
    row.metric = run.metric;
    row.generated_data = prepared.header.generated_data;
    const RunSpec spec{options.read_for_devices()};
    row.files = named_files(spec, known);
    set_work(row, run, spec, data);
    if (seeds.empty()) prepared.rows.push_back(row);
    for (const int64_t seed : seeds) {
      prepared.rows.push_back(row);
      StudyTraining& of_seed = prepared.rows.back();
      of_seed.words = with_seed(std::move(of_seed.words), seed);
      if (seed == seeds.front()) continue;
      of_seed.folder += fmt::format("-seed-{}", seed);
      of_seed.job.label += fmt::format(", seed {}", seed);
    }
    if (!run.tuning) continue;
    std::vector<std::string> more = run.tuning->set;
    more.emplace_back("");
    for (size_t v = 0; v < run.tuning->values.size(); ++v) {
      const std::string& value = run.tuning->values[v];
      more.back() = fmt::format("{}={}", run.tuning->key, value);
      const ExperimentOptions tried = options_of(run, inputs, more, trained);
      StudyTraining trial{.job = row.job,
                          .words = with_plan(first_words(run.cluster, tried), job),
                          .folder = folder / "trials" / fmt::format("{}-{}", job.folder, v + 1),
                          .value = value,
                          .metric = run.metric,
                          .generated_data = row.generated_data};
      if (!seeds.empty()) trial.words = with_seed(std::move(trial.words), seeds.front());
      trial.job.label += fmt::format(", {}={}", run.tuning->key, value);
      const RunSpec tried_spec{tried.read_for_devices()};
      trial.files = named_files(tried_spec, known);
      set_work(trial, run, tried_spec, data);
      prepared.trials.push_back(trial);
    }
  }
}

/// A row that cannot be trained, with the global batch that it would have; nullopt: it can.
std::optional<RunResult> ruled_out_in(const StudyRun& run, const StudyInputs& inputs, const Job& job,
                                      const RunSpec& spec, const Model& model, const TaskData& data) {
  if (run.batch_per_worker == 0) return ruled_out(job, spec, model, data, cluster_of(spec, job.devices));
  if (is_plan_file(job.strategy) || is_update_policy(job.strategy))
    fail_user({run.name, "batch_per_worker", fmt::format("\"{}\" is not a strategy of one replica", job.strategy),
               "name strategies such as data or hybrid:tensor, or leave batch_per_worker out"});
  try {
    const RunSpec own{options_of(run, inputs, {}, &job).read()};
    check_batch(own, data);
    return ruled_out(job, own, model, data, cluster_of(own, job.devices));
  } catch (const Error& error) {
    return row_without_run(job, RunStatus::skipped, first_line(error));
  }
}

/// Errors (user): a batch per device beside another rule for the batch of each row.
void refuse_two_batches(const StudyRun& run, const Experiment& experiment) {
  const bool tuned = run.tuning && run.tuning->key == "batch";
  if (!awaits_devices(experiment) || (run.batch_per_worker == 0 && !tuned)) return;
  fail_user({run.name, tuned ? "tune: batch" : fmt::format("batch_per_worker = {}", run.batch_per_worker),
             fmt::format("{} gives a batch per device", experiment.where("batch")), "leave out one of the two"});
}

void check_metric(const StudyRun& run, const TaskData& data) {
  const std::vector<std::string> known = metric_names(data.train->task(), data.train->classes());
  if (run.metric.empty() || std::find(known.begin(), known.end(), run.metric) != known.end()) return;
  const std::string near = closest_match(run.metric, known);
  fail_user({"metric", fmt::format("\"{}\"", run.metric), "is not a metric of this task",
             near.empty() ? "known are: " + join(known) : fmt::format("did you mean \"{}\"?", near)});
}

/// Returns the error's text for a study: it names the list `set` where a command line has --set.
std::string problem_of(const StudyRun& run, const std::exception& error) {
  constexpr std::string_view kFlag = "--set ", kSetting = "setting ";
  std::string text = first_line(error);
  for (size_t at = text.find(kFlag); at != text.npos; at = text.find(kFlag, at))
    text.replace(at, kFlag.size(), kSetting);
  const bool is_tuned = run.tuning && text.starts_with(fmt::format("{}{}=", kSetting, run.tuning->key));
  return is_tuned ? "tune: " + text : text;
}

}  // namespace

PreparedRun prepare_run(const StudyRun& run, const StudyInputs& inputs) {
  PreparedRun prepared{.run = &run, .seeds = run.seeds_of(inputs.size)};
  try {
    RunSpec spec{options_of(run, inputs, {}).read_for_devices()};
    refuse_elastic_rows(spec);
    refuse_two_batches(run, spec);
    check_device(spec);
    const TaskData data = open_data(spec.data);
    check_batch(spec, data);
    check_metric(run, data);
    const Model model = build_model(spec, data);
    prepared.jobs = list_jobs(spec, model, /*to_run=*/true);
    for (const Job& job : prepared.jobs)
      prepared.ruled_out.push_back(ruled_out_in(run, inputs, job, spec, model, data));
    prepared.header = experiment_header(spec, data, with_initial_weights(spec, model));
    if (run.batch_per_worker > 0) prepared.header.batch = 0;  // each row has its own
    prepared.time_limit = spec.time_limit;
    prepared.batch = spec.batch;
    list_trainings(prepared, inputs, data);
  } catch (const std::exception& error) {
    prepared.problem = problem_of(run, error);
    prepared.jobs.clear();  // lists that are half made count nothing
    prepared.ruled_out.clear();
    prepared.rows.clear();
    prepared.trials.clear();
  }
  return prepared;
}

std::optional<RunResult> kept_row(const StudyTraining& training) {
  const fs::path words = words_file(training), file = training.folder / "run.json";
  if (!fs::exists(words) || !fs::exists(file)) return std::nullopt;
  try {
    if (read_json_file(words) != command_of(training)) return std::nullopt;
    const json content = read_json_file(file);
    if (content.value("status", "") != "finished") return std::nullopt;
    const ExperimentResult result = from_json(content, file.string());
    if (result.rows.size() != 1 || result.generated_data != training.generated_data) return std::nullopt;
    const RunStatus status = result.rows.front().status;
    // A trial with a value that diverges would diverge again. Of a failed row the cause may be gone.
    const bool ended = status == RunStatus::ok || status == RunStatus::timed_out || status == RunStatus::does_not_fit ||
                       (status == RunStatus::failed && !training.value.empty());
    return ended ? std::optional(with_main_metric(result.rows.front(), training.metric)) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;  // not readable: it is trained again, and the folder stays
  }
}

RunResult with_main_metric(RunResult row, const std::string& metric) {
  const auto put_first = [&](EvaluationPoint& point) {
    std::stable_partition(point.metrics.begin(), point.metrics.end(),
                          [&](const Metric& m) { return m.name == metric; });
  };
  for (EvaluationPoint& point : row.evaluations) put_first(point);
  for (std::optional<EvaluationPoint>* point : {&row.test, &row.test_at_equal_samples, &row.test_at_equal_time})
    if (*point) put_first(**point);
  return row;
}

void begin_training(const StudyTraining& training) {
  std::error_code error;
  fs::create_directories(training.folder.parent_path(), error);
  if (fs::exists(training.folder)) {
    fs::path aside;
    for (int k = 1; fs::exists(aside = training.folder.string() + fmt::format(".earlier-{}", k));) ++k;
    fs::rename(training.folder, aside, error);
  }
  if (error)
    fail_run({training.folder.string(), "cannot be prepared", error.message(), "choose another folder with --out"});
  write_json_file(words_file(training), command_of(training));
}

std::optional<TrainingCost> measure_cost(const PreparedRun& run, ForkServer& forks) {
  const fs::path out = fs::temp_directory_path() / fmt::format("trireme-probe-{}", ::getpid());
  std::error_code ignored;
  fs::remove_all(out, ignored);
  std::vector<std::string> words = run.probe;
  words.insert(words.end(), {"--plan", single_strategy(), "--devices", "1", "--steps", std::to_string(kProbeSteps),
                             "--out", out.string()});
  std::optional<StepSeconds> step;
  const auto on_message = [&](const json& message) {
    if (message.value("type", "") == "result") step = row_from_json(message.at("row")).step_seconds;
  };
  const double began = steady_seconds();
  const ChildEnd end = run_child(words, 0, interrupted_by_user(), on_message, &forks);
  const double wall = steady_seconds() - began;
  fs::remove_all(out, ignored);
  if (end.exit_code != 0 || !step) return std::nullopt;
  return TrainingCost{std::max(0.0, wall - kProbeSteps * step->median), step->median / double(run.batch)};
}

double estimated_seconds(const StudyTraining& training, const TrainingCost& cost) {
  const double samples = training.samples + kEvaluationShare * training.evaluated;
  return cost.start + samples * cost.sample / training.parallel;
}

std::optional<size_t> best_of(const std::vector<RunResult>& trials) {
  std::optional<size_t> best;
  double lowest = 0;
  for (size_t k = 0; k < trials.size(); ++k) {
    const auto& test = trials[k].test;
    if (trials[k].status != RunStatus::ok || !test || !std::isfinite(test->loss)) continue;
    const Metric* main = test->main();
    const double cost = !main ? test->loss : kind_of_metric(main->name).higher_is_better ? -main->value : main->value;
    if (!std::isfinite(cost) || (best && cost >= lowest)) continue;
    best = k;
    lowest = cost;
  }
  return best;
}

}  // namespace trireme
