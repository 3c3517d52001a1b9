// `trireme plan project`: the time to the target on increasing numbers of devices.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/counted.h"
#include "base/json_file.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/cost_source_flags.h"
#include "cli/described_devices.h"
#include "cli/foreign_flags.h"
#include "cli/plan_choice.h"
#include "cli/plan_command.h"
#include "cli/predict_subject.h"
#include "cli/text_table.h"
#include "cost/epochs_file.h"
#include "cost/money.h"
#include "experiment/make_plan.h"
#include "forecast/best_plan.h"
#include "forecast/projection.h"
#include "plan/branches.h"
#include "plan/strategies.h"
#include "report/progress.h"
#include "report/run_json.h"
#include "report/width.h"
#include "train/trainer.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using nlohmann::json;

/// Predicts the steps of plans; each plan once.
class Steps {
 public:
  Steps(const RunSpec& experiment, const Model& model, Predictions& predictions, int64_t epoch_samples)
      : experiment_(experiment), model_(model), predictions_(predictions), epoch_samples_(epoch_samples) {}

  /// Returns nullopt if the plan does not suit the model, the batch or the number of devices.
  std::optional<PredictedStep> operator()(const std::string& strategy, int devices, int64_t batch, int model_degree) {
    const auto [place, fresh] = known_.try_emplace({strategy, devices, batch, model_degree});
    if (fresh) place->second = predicted(strategy, devices, batch, model_degree);
    return place->second;
  }

  /// Returns the requested plans that need more memory than the devices have: "data=1 with a batch of 32".
  std::vector<std::string> too_full() const {
    std::vector<std::string> plans;
    for (const auto& [asked, step] : known_) {
      const auto& [strategy, devices, batch, model_degree] = asked;
      if (step && !step->fits)
        plans.push_back(fmt::format("{} with a batch of {}", name_of_split(strategy, devices, model_degree), batch));
    }
    return plans;
  }

  /// Returns the plans whose batch would have more samples than an epoch.
  const std::vector<std::string>& too_large() const { return too_large_; }

  Plan plan_of(const Projected& p) {
    RunSpec experiment = experiment_;
    experiment.batch = p.batch;
    return *plan(experiment, p.strategy, p.devices, p.model_degree);
  }

  std::optional<Money> price(int devices, double seconds) {
    return price_of(predictions_.source(devices).cluster, seconds);
  }

 private:
  /// Returns nullopt if nothing is gained by a placement. Errors (user): the plan does not suit.
  std::optional<Plan> plan(const RunSpec& experiment, const std::string& strategy, int devices, int model_degree) {
    const CostSource& source = predictions_.source(devices);
    if (strategy == kPlacement.name) return placement_of_replicas(experiment, model_, source, model_degree);
    if (devices == model_degree || !is_of_replica(strategy)) return make_plan(strategy, experiment, model_, source);
    const int replicas = devices / model_degree;
    RunSpec of_one = experiment;
    of_one.batch = experiment.batch / replicas;
    return replicated(make_plan(strategy, of_one, model_, predictions_.source(model_degree)), replicas);
  }

  std::optional<PredictedStep> predicted(const std::string& strategy, int devices, int64_t batch, int model_degree) {
    if (batch > epoch_samples_) {
      too_large_.push_back(fmt::format("{} with a batch of {}", name_of_split(strategy, devices, model_degree), batch));
      return std::nullopt;
    }
    RunSpec experiment = experiment_;
    experiment.batch = batch;
    try {
      const std::optional<Plan> asked = plan(experiment, strategy, devices, model_degree);
      if (!asked) return std::nullopt;
      const RunResult row = predict(experiment, model_, *asked, predictions_.source(devices), without_pictures());
      return PredictedStep(row.step_seconds->median, row.status != RunStatus::does_not_fit);
    } catch (const Error& error) {
      if (error.blame() == Blame::user) return std::nullopt;
      throw;
    }
  }

  const RunSpec& experiment_;
  const Model& model_;
  Predictions& predictions_;
  const int64_t epoch_samples_;
  std::vector<std::string> too_large_;
  std::map<std::tuple<std::string, int, int64_t, int>, std::optional<PredictedStep>> known_;
};

using BatchIs = ProjectionRequest::BatchIs;

const char* name_of(BatchIs batch_is) {
  switch (batch_is) {
    case BatchIs::per_worker: return "per worker";
    case BatchIs::per_device: return "per device";
    case BatchIs::global: break;
  }
  return "global";
}

std::string title_of(const ProjectionRequest& request) {
  switch (request.batch_is) {
    case BatchIs::per_worker: return fmt::format("\n{} samples for every data-parallel worker\n", request.batch);
    case BatchIs::per_device: return fmt::format("\n{} samples for every device\n", request.batch);
    case BatchIs::global: break;
  }
  return fmt::format("\n{} samples in every global batch\n", request.batch);
}

struct Projection {
  ProjectionRequest request;
  std::vector<ProjectedRow> rows;
};

std::string time_cell(const std::optional<Projected>& p) {
  return p && p->seconds() ? format_seconds(*p->seconds()) : "";
}
std::string step_cell(const std::optional<Projected>& p) { return p ? format_seconds(p->step_seconds) : ""; }

std::string epochs_cell(const std::optional<Projected>& p) {
  if (!p) return "";
  return p->epochs.value ? fmt::format("{:.3g}", *p->epochs.value) : p->epochs.basis;
}

std::string gain_cell(const ProjectedRow& row) {
  if (!row.data || !row.hybrid || !row.data->seconds() || !row.hybrid->seconds()) return "";
  return fmt::format("{:+.1f} %", 100 * (*row.data->seconds() / *row.hybrid->seconds() - 1));
}

std::string table_of(const Projection& projection, Steps& steps) {
  const auto price_cell = [&](const std::optional<Projected>& p) -> std::string {
    const auto price = p && p->seconds() ? steps.price(p->devices, *p->seconds()) : std::nullopt;
    return price ? format_money(price) : "";
  };
  std::vector<std::vector<std::string>> rows;
  for (const ProjectedRow& row : projection.rows)
    rows.push_back({std::to_string(row.devices), row.data ? std::to_string(row.data->batch) : "", step_cell(row.data),
                    epochs_cell(row.data), time_cell(row.data), price_cell(row.data),
                    row.hybrid ? name_of(*row.hybrid) : "", row.hybrid ? std::to_string(row.hybrid->batch) : "",
                    step_cell(row.hybrid), epochs_cell(row.hybrid), time_cell(row.hybrid), price_cell(row.hybrid),
                    gain_cell(row)});
  return text_table({"devices", "data: batch", "step", "epochs", "time", "price", "best hybrid", "hybrid: batch",
                     "step", "epochs", "time", "price", "gain"},
                    rows, {0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12}, columns_of_output(STDERR_FILENO));
}

/// Explains why the hybrid wins on these devices, by the rule for a fixed batch per worker.
std::string rule_in_words(const Projection& projection, const ProjectedRow& row) {
  const int degree = row.hybrid->model_degree;
  const auto narrow = std::find_if(projection.rows.begin(), projection.rows.end(),
                                   [&](const ProjectedRow& r) { return r.devices == row.devices / degree; });
  if (projection.request.batch_is != BatchIs::per_worker || narrow == projection.rows.end() || !narrow->data ||
      !row.data || !row.data->epochs.value)
    return "";
  const double su = narrow->data->step_seconds / row.hybrid->step_seconds;
  const HybridChoice choice{degree, narrow->data->step_seconds / row.data->step_seconds,
                            *row.hybrid->epochs.value / *row.data->epochs.value};
  return fmt::format(
      ": a worker of {} devices is {:.3g} times as fast as one device, more than {} x {:.3g} (efficiencies) x {:.3g} "
      "(epochs) = {:.3g}",
      degree, su, degree, choice.efficiency_ratio, choice.epochs_ratio, choice.threshold());
}

std::string crossover_in_words(const Projection& projection, const ProjectedRow& row) {
  const std::vector<int> again = data_faster_again(projection.rows);
  const bool unknown = row.data && !row.data->seconds();
  std::string text = fmt::format(
      "{} {} devices{} a hybrid {}{}\n", again.empty() ? "from" : "on", row.devices, again.empty() ? " on" : "",
      unknown ? fmt::format("reaches the target, and there is no time for data parallelism on the same devices: {}",
                            row.data->epochs.basis)
              : "is faster than data parallelism on the same devices",
      rule_in_words(projection, row));
  if (!again.empty()) text += fmt::format("data parallelism is faster again on {} devices\n", fmt::join(again, ", "));
  return text;
}

std::string findings(const Projection& projection) {
  std::string text;
  const ProjectedRow* row = crossover_of(projection.rows);
  if (!row) text += "no hybrid is faster than data parallelism on the same devices\n";
  else text += crossover_in_words(projection, *row);
  const Projected *data = fastest_data(projection.rows), *hybrid = fastest_hybrid(projection.rows);
  if (data)
    text +=
        fmt::format("fastest data parallelism: {} on {} devices\n", format_seconds(*data->seconds()), data->devices);
  if (hybrid)
    text += fmt::format("fastest hybrid: {} on {} devices ({})", format_seconds(*hybrid->seconds()), hybrid->devices,
                        name_of(*hybrid));
  if (data && hybrid) text += fmt::format(", {:+.1f} %", 100 * (*data->seconds() / *hybrid->seconds() - 1));
  return hybrid ? text + "\n" : text;
}

json to_json(const Projected& p, Steps& steps) {
  json j{{"strategy", name_of(p)}, {"devices", p.devices}, {"model_degree", p.model_degree}, {"batch", p.batch}};
  j["step_seconds"] = json_number(p.step_seconds);
  j["steps_per_epoch"] = json_number(p.steps_per_epoch);
  j["epochs"] = p.epochs.value ? json_number(*p.epochs.value) : json(nullptr);
  j["epochs_basis"] = p.epochs.basis;
  j["seconds"] = p.seconds() ? json_number(*p.seconds()) : json(nullptr);
  const auto price = p.seconds() ? steps.price(p.devices, *p.seconds()) : std::nullopt;
  j["price"] = price ? json_number(price->amount) : json(nullptr);
  return j;
}

json to_json(const Projection& projection, Steps& steps) {
  json rows = json::array();
  for (const ProjectedRow& row : projection.rows)
    rows.push_back({{"devices", row.devices},
                    {"data", row.data ? to_json(*row.data, steps) : json(nullptr)},
                    {"hybrid", row.hybrid ? to_json(*row.hybrid, steps) : json(nullptr)}});
  const ProjectedRow* crossover = crossover_of(projection.rows);
  return {{"batch", projection.request.batch},
          {"batch_is", name_of(projection.request.batch_is)},
          {"epoch_samples", projection.request.epoch_samples},
          {"rows", rows},
          {"crossover", crossover ? json(crossover->devices) : json(nullptr)},
          {"data_faster_again", data_faster_again(projection.rows)}};
}

/// Wraps the text for a terminal; for a file or a pipe, lines stay whole.
std::string in_prose(const std::string& text) { return wrap_lines(text, columns_of_output(STDERR_FILENO, 0)); }

void print_left_out(std::vector<std::string> plans, const char* why) {
  constexpr size_t kMostNamed = 4;
  if (plans.empty()) return;
  const size_t more = plans.size() - std::min(plans.size(), kMostNamed);
  plans.resize(plans.size() - more);
  std::cerr << in_prose(fmt::format("\nleft out, because {}: {}{}\n", why, fmt::join(plans, "; "),
                                    more > 0 ? fmt::format(" and {} more", more) : ""));
}

void print(const std::vector<Projection>& projections, Steps& steps) {
  for (const Projection& p : projections)
    std::cerr << title_of(p.request) << table_of(p, steps) << in_prose(findings(p));
  print_left_out(steps.too_large(), "an epoch has fewer samples");
  print_left_out(steps.too_full(), "they do not fit into the devices' memory");
}

/// Returns the global batch of the experiment on so many devices.
int64_t asked_on(const Experiment& asked, int devices) {
  return asked.batch_per_device > 0 ? asked.batch_per_device * devices : asked.batch;
}

/// Returns the fastest projection to the target; null if no epochs are known.
const Projected* winner_of(const std::vector<Projection>& projections) {
  const Projected* winner = nullptr;
  for (const Projection& projection : projections)
    for (const ProjectedRow& row : projection.rows)
      for (const std::optional<Projected>* p : {&row.data, &row.hybrid})
        if (*p && (*p)->seconds() && (!winner || *(*p)->seconds() < *winner->seconds())) winner = &**p;
  return winner;
}

/// `asked`: the experiment as it was read.
std::string winner_in_words(const Projected* winner, const Experiment& asked) {
  if (!winner) return "no plan is printed, because the epochs to the target are not known for any of these batches\n";
  return fmt::format(
      "the plan of {} on {} {}, {} to the target{}\n", name_of(*winner), winner->devices,
      winner->devices == 1 ? "device" : "devices", format_seconds(*winner->seconds()),
      winner->batch == asked_on(asked, winner->devices)
          ? ""
          : fmt::format("; it is for a batch of {}: train it with --set batch={}", winner->batch, winner->batch));
}

/// A batch per device has no projection with one global batch, and one per worker only if it is asked for.
std::vector<BatchIs> kinds_of(const PlanProjectOptions& options, const Experiment& asked) {
  if (asked.batch_per_device == 0) return {BatchIs::per_worker, BatchIs::global};
  if (options.per_worker > 0) return {BatchIs::per_worker, BatchIs::per_device};
  return {BatchIs::per_device};
}

/// Errors (user): a batch has more samples than an epoch, whatever the number of workers.
void check_batches(const PlanProjectOptions& options, int64_t batch, int64_t epoch_samples) {
  const int64_t least = options.per_worker > 0 ? options.per_worker : batch;
  if (least <= epoch_samples) return;
  fail_user({options.per_worker > 0 ? "--batch-per-worker" : "batch", std::to_string(least),
             fmt::format("an epoch has {}", counted(epoch_samples, "sample")),
             fmt::format("use at most {}, or say how long an epoch is: --epoch-samples", epoch_samples)});
}

/// Parses "8", "2,4,8", or "1..256" (1, 2, 4, ..., 256). Throws CLI::ValidationError.
std::vector<int> parse_device_numbers(const std::string& text) {
  const auto number = [](const std::string& item) {
    if (const std::string problem = whole_number(1, kMaxPlanDevices)(item); !problem.empty())
      throw CLI::ValidationError("--devices", problem);
    return std::stoi(item);
  };
  const size_t range = text.find("..");
  if (range != text.npos) {
    const int first = number(text.substr(0, range)), last = number(text.substr(range + 2));
    if (first > last) throw CLI::ValidationError("--devices", fmt::format("{}: the first is more than the last", text));
    return doubling_devices(first, last);
  }
  std::vector<int> numbers;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    numbers.push_back(number(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return numbers;
}

}  // namespace

void add_plan_project(CLI::App& plan, PlanProjectOptions& o) {
  auto* verb = plan.add_subcommand(
      "project",
      "project the time to the target on increasing numbers of devices, for data parallelism and the best hybrid");
  o.experiment.add_common(*verb);
  verb->add_option_function<std::string>(
      "--devices", [&o](const std::string& text) { o.experiment.devices = parse_device_numbers(text); },
      "numbers of devices: 2,4,8, or 1..256 for 1, 2, 4, ..., 256 (default: the experiment's)");
  verb->add_option("--epochs", o.epochs,
                   "epochs to the target: a file of measure-epochs, noise=2000[,least=12], or a table of batches and "
                   "epochs, 256:4,2048:4.5,8192:16")
      ->required();
  verb->add_option("--batch-per-worker", o.per_worker, "samples per data-parallel worker (default: batch)")
      ->check(whole_number(1));
  verb->add_option("--epoch-samples", o.epoch_samples, "samples of an epoch (default: the training set's)")
      ->check(whole_number(1));
  verb->add_option("--json", o.json, "also write the result to this file; -: to standard output instead of the plan");
  add_cost_source(*verb, o.prediction);
}

int run_plan_project(const PlanProjectOptions& options) {
  RunSpec asked{options.experiment.read_for_devices()};
  const Experiment as_read = asked;
  asked.batch_per_device = 0;  // each projection sets its batches
  if (options.json != "-") check_target("--json", options.json);
  refuse_length_as_epochs(options.epochs, asked.batch);
  const EpochsToTarget epochs = parse_epochs(options.epochs);
  std::vector<int> devices = asked.devices;
  std::sort(devices.begin(), devices.end());
  check_described_devices({kExact.name}, "plan project", devices.back(), options.experiment, asked, options.prediction);
  Progress progress(standard_error_progress());
  PredictSubject subject(std::move(asked), options.prediction, progress);
  const RunSpec& experiment = subject.experiment;
  const TaskData& data = subject.data;
  const Model& model = subject.model;
  Predictions& predictions = subject.predictions;
  const int64_t epoch_samples = options.epoch_samples > 0 ? options.epoch_samples : data.train->size();
  check_batches(options, experiment.batch, epoch_samples);
  Steps steps(experiment, model, predictions, epoch_samples);
  std::vector<Projection> projections;
  for (const BatchIs batch_is : kinds_of(options, as_read)) {
    Projection p;
    p.request.devices = devices;
    p.request.batch_is = batch_is;
    p.request.batch = batch_is == BatchIs::per_worker && options.per_worker > 0 ? options.per_worker : experiment.batch;
    p.request.epoch_samples = epoch_samples;
    p.rows = in_phase(&progress, "simulating", [&] { return project(p.request, epochs, std::ref(steps)); });
    projections.push_back(std::move(p));
  }
  predictions.keep();
  ExperimentResult prices;
  predictions.describe_prices(prices);
  std::cerr << in_prose(
      fmt::format("{} on {}; epochs to the target: {}\n", model.name(), predictions.in_words(), epochs.source()));
  if (!prices.prices.empty()) std::cerr << in_prose("prices: " + prices.prices + "\n");
  print(projections, steps);
  const Projected* winner = winner_of(projections);
  std::cerr << "\n" << in_prose(winner_in_words(winner, as_read));
  const std::optional<Plan> plan = winner ? std::optional(steps.plan_of(*winner)) : std::nullopt;
  if (plan && options.json != "-") std::cout << plan_text(*plan, model);
  if (options.json.empty()) return 0;
  json all = json::array();
  for (const Projection& p : projections) all.push_back(to_json(p, steps));
  const json result{{"objective", "accuracy"},
                    {"model", model.name()},
                    {"predicted_on", predictions.in_words()},
                    {"epochs_from", epochs.source()},
                    {"currency", prices.currency},
                    {"prices", prices.prices},
                    {"projections", all},
                    {"best", winner ? to_json(*winner, steps) : json(nullptr)},
                    {"plan", plan ? trireme::to_json(*plan, model) : json(nullptr)}};
  if (options.json == "-") std::cout << json_text(result, 2) << "\n";
  else write_json_file(options.json, result);
  return 0;
}

}  // namespace trireme
