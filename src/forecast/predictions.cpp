#include "forecast/predictions.h"

#include <fmt/format.h>

#include <limits>
#include <memory>
#include <utility>

#include "base/counted.h"
#include "base/seconds.h"
#include "cost/money.h"
#include "cost/profiled_costs.h"
#include "data/open.h"
#include "experiment/run_device.h"
#include "forecast/own_costs.h"
#include "forecast/predict.h"
#include "plan/cluster_file.h"
#include "plan/device_orders.h"
#include "plan/strategy.h"
#include "profile/measure_profile.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr double kLinkSeconds = 10;   // budget for links and updates
constexpr double kAgainSeconds = 20;  // for layers that are measured again

/// Returns the seconds per sample that a worker needs to get its share: loading it, or copying what was loaded ahead.
double loading_seconds(const Experiment& experiment, const TaskData& data) {
  if (!has_samples(*data.train)) return 0;
  // Loading runs beside the workers; a run's trace shows whether it keeps up.
  if (loading_threads_of(experiment, *data.train) > 0) return 0;
  const int64_t samples = std::min<int64_t>(experiment.batch, data.train->size());
  std::vector<int64_t> indices(static_cast<size_t>(samples));
  for (int64_t i = 0; i < samples; ++i) indices[size_t(i)] = i;
  double least = std::numeric_limits<double>::infinity();
  for (int run = 0; run < 5; ++run) {
    const double begin = steady_seconds();
    data.train->get(indices, Draw{});
    least = std::min(least, steady_seconds() - begin);
  }
  return least / double(samples);
}

}  // namespace

void describe_own_price(const Experiment& experiment, ExperimentResult& result) {
  if (experiment.price_per_hour <= 0) return;
  result.price_per_hour = experiment.price_per_hour;
  result.currency = experiment.currency;
  result.prices = fmt::format("{:.6g} {} an hour for this machine, as the experiment says", experiment.price_per_hour,
                              experiment.currency);
  if (!experiment.price_note.empty()) result.prices += fmt::format(" ({})", experiment.price_note);
}

Predictions::Predictions(const RunSpec& experiment, const Model& model, const TaskData& data,
                         const CostSourceOptions& options)
    : experiment_(experiment), model_(model), data_(data), options_(options) {
  if (!options.cluster.empty() && !options.profile.empty())
    fail_user({"--cluster", options.cluster.string(),
               "a profile describes this machine, a cluster file describes others", "leave one of them out"});
  if (!options.times.empty()) {
    times_ = read_own_times(options.times);
    if (!times_->of_stages) const OwnCosts checked(model, nullptr, *times_, nullptr);
  }
  if (!options.cluster.empty()) {
    cluster_ = at_precision(read_cluster(options.cluster), name_of(experiment.precision));
    return;
  }
  check_device(experiment);
  if (std::vector<c10::Device> places = places_of_run(experiment); !places.empty())
    placed_ = std::make_unique<PlacedDevices>(0, std::move(places));
  if (std::filesystem::exists(options.profile)) {
    profile_ = read_profile(options.profile);
    check_same_machine(profile_.machine, fingerprint_of_this_machine(experiment.threads), options.profile.string());
  }
  ProfileRequest request;
  request.optimizer = experiment.optimizer;
  request.seconds = kLinkSeconds;
  const LayerSites sites(model, site_options(experiment));
  extend_profile(profile_, sites, request);
  loading_ = loading_seconds(experiment, data);
}

Predictions::Predictions(const RunSpec& experiment, const Model& model, const TaskData& data, Cluster cluster)
    : experiment_(experiment),
      model_(model),
      data_(data),
      cluster_(at_precision(std::move(cluster), name_of(experiment.precision))) {}

const ProfiledCosts* Predictions::measured_layers() const {
  return sources_.empty() ? nullptr : dynamic_cast<const ProfiledCosts*>(sources_.begin()->second.layers.get());
}

const CostSource& Predictions::source(const std::vector<int>& devices) {
  const CostSource& predicted = predicted_source(devices);
  if (!times_ || times_->of_stages) return predicted;
  const auto [it, fresh] = timed_sources_.try_emplace(devices, predicted);
  if (fresh) it->second.layers = std::make_shared<OwnCosts>(model_, predicted.layers, *times_, nullptr);
  return it->second;
}

const CostSource& Predictions::predicted_source(const std::vector<int>& devices) {
  const auto known = sources_.find(devices);
  if (known != sources_.end()) return known->second;
  CostSource source = cluster_ ? described_source(experiment_, model_, *cluster_, devices)
                               : measured_source(experiment_, model_, profile_, int(devices.size()));
  source.loading = loading_;
  // Measurements for one number of devices hold for all.
  if (!cluster_ && !sources_.empty()) source.layers = sources_.begin()->second.layers;
  return sources_.emplace(devices, std::move(source)).first->second;
}

const CostSource& Predictions::source(const Plan& plan) {
  const CostSource& predicted = predicted_source(
      cluster_ && !plan.cluster_devices.empty() ? plan.cluster_devices : device_numbers(0, plan.workers()));
  if (!times_) return predicted;
  for (const auto& [known, source] : timed_plans_)
    if (known == plan) return source;
  CostSource source = predicted;
  source.layers = std::make_shared<OwnCosts>(model_, predicted.layers, *times_, &plan);
  return timed_plans_.emplace_back(plan, std::move(source)).second;
}

CostSource Predictions::settled_source(const Plan& plan) {
  settle([&] {
    for (const int64_t batch : {experiment_.batch, data_.train->size() % experiment_.batch}) {
      RunSpec asked = experiment_;
      asked.batch = batch;
      if (batch > 0) predict(asked, model_, plan, source(plan), without_pictures());
    }
  });
  struct Own {
    Model model;
    std::shared_ptr<const LayerCosts> layers;
  };
  const auto own = std::make_shared<Own>(Own{model_, nullptr});
  CostSource source;
  if (cluster_) {
    source = described_source(experiment_, own->model, *cluster_,
                              plan.cluster_devices.empty() ? device_numbers(0, plan.devices) : plan.cluster_devices);
  } else {
    const auto& measured = dynamic_cast<const ProfiledCosts&>(*this->source(plan).layers);
    source = measured_source(experiment_, own->model, measured.profile(), plan.devices, /*measures=*/false);
  }
  own->layers = std::move(source.layers);
  source.layers = std::shared_ptr<const LayerCosts>(own, own->layers.get());
  return source;
}

DeviceChoice Predictions::choice(int devices) {
  if (times_ && times_->of_stages)
    fail_user({times_->rows.front().where, "own times of stages", "a planner chooses the stages itself",
               "give times of layers or blocks, or name a plan with these stages"});
  return {.source_of = [this](const std::vector<int>& chosen) -> const CostSource& { return source(chosen); },
          .orders = cluster_ ? device_orders(*cluster_, std::min(devices, cluster_->size()))
                             : std::vector<std::vector<int>>{device_numbers(0, devices)}};
}

Plan Predictions::plan(const std::string& name, int devices) {
  if (!is_planned(name)) return make_plan(name, experiment_, model_, source(devices));
  const RunSpec experiment = with_batch_on(experiment_, devices);
  if (name != kExact.name) {
    PlannedPlan planned = planned_plan(name, experiment, model_, choice(devices));
    note_ = std::move(planned.note);
    return std::move(planned.plan);
  }
  if (!final_trials_ || !searched_.contains(devices))
    searched_.insert_or_assign(devices, search_exact(experiment, model_, choice(devices)));
  return exact_plan(searched_.at(devices), experiment, model_, devices, final_trials());
}

void Predictions::settle(const std::function<void()>& ask) {
  ask();
  const ProfiledCosts* measured = measured_layers();
  if (!measured || !measured->measure_again(kAgainSeconds)) return;
  timed_sources_.clear();  // they keep factors on what was measured before
  timed_plans_.clear();
  searched_.clear();
  ask();
}

std::string Predictions::in_words() const {
  const std::string own = times_ ? fmt::format("; own times of {} from {}", times_->of_stages ? "stages" : "layers",
                                               times_->file.filename().string())
                                 : "";
  if (!cluster_)
    return (experiment_.links ? "this machine, as its layers were measured, with the links of [cluster.link]"
                              : "this machine, as its layers and links were measured") +
           own;
  const std::string file = options_.cluster.filename().string();
  return fmt::format("{}{}, by datasheets: an approximation{}", cluster_->name,
                     file.empty() ? "" : fmt::format(" ({})", file), own);
}

void Predictions::describe_prices(ExperimentResult& result) const {
  if (!cluster_) return describe_own_price(experiment_, result);
  result.price_per_hour.reset();  // the price of this machine does not apply
  result.currency.clear();
  result.prices.clear();
  if (!price_per_hour(*cluster_)) return;
  result.currency = cluster_->price.currency;
  result.prices = price_note(*cluster_) + "; a snapshot, to be edited in the cluster file";
}

void Predictions::keep() {
  const ProfiledCosts* measured = measured_layers();
  if (options_.profile.empty() || !measured) return;
  write_profile(measured->profile(), options_.profile);
}

std::string Predictions::try_steps(const std::vector<int>& devices, const MeasureStep& measure_step) {
  if (cluster_ || times_) return "";
  source(1);
  TrialSteps trial(experiment_, model_, *measured_layers(), loading_, devices);
  settle([&] { trial.predict(); });
  const TrialSteps::Found found = trial.measure(measure_step);
  profile_ = measured_layers()->profile();
  if (found.factors) profile_.step_factors[step_factors_name(experiment_, model_)] = *found.factors;
  sources_.clear();  // they are created again, with these factors
  searched_.clear();
  source(1);
  return found.in_words;
}

bool Predictions::use_final_trials(MeasureStep measure_step) {
  const bool here = has_samples(*data_.train) && experiment_.batch <= data_.train->size();
  if (cluster_ || times_ || !here) return false;
  // Emulated links and networks do not become slower with the cores.
  const bool own_links = experiment_.links || experiment_.processes;
  // Predictions do not model the order in which the system runs the threads of processes, so the plainest plan is
  // always tried.
  const double plainest_within = experiment_.processes ? std::numeric_limits<double>::infinity() : FinalTrials::kWithin;
  final_trials_.emplace(std::move(measure_step), own_links ? 0 : core_seconds().value_or(0), plainest_within);
  return true;
}

std::optional<double> Predictions::of_this_machine(double speed) const {
  return cluster_ || times_ || speed == 0 ? std::nullopt : std::optional(speed);
}

std::optional<double> Predictions::core_seconds() const { return of_this_machine(profile_.device.core_seconds); }

std::optional<double> Predictions::memory_speed() const { return of_this_machine(profile_.device.memory_speed); }

std::string Predictions::compared_with(const std::vector<RunResult>& rows) const {
  std::vector<double> ratios;
  bool speeds = false;
  for (const RunResult& row : rows) {
    if (row.status != RunStatus::ok || row.oversubscribed || !row.predicted || !row.step_seconds) continue;
    ratios.push_back(*step_beside_prediction(row) / prediction_at_core_speed(row));
    speeds = speeds || core_speed_of(row);
  }
  if (ratios.empty() || !measured_layers()) return "";
  return fmt::format("steps took {:.2f} times as long as predicted{} (median of {})", spread_of(ratios).median,
                     speeds ? ", at the speed of the cores" : "", counted(int64_t(ratios.size()), "row"));
}

}  // namespace trireme
