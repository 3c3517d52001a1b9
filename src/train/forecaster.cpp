#include "train/forecaster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/seconds.h"
#include "cost/profiled_costs.h"
#include "forecast/best_plan.h"
#include "plan/cluster_file.h"
#include "plan/named.h"
#include "plan/strategy.h"
#include "profile/measure_links.h"
#include "program/compile.h"
#include "runtime/migrate/migrate.h"
#include "schedule/kinds.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr double kSearchSeconds = 2;  // time of the exact planner while workers continue ...
constexpr double kFirstSeconds = 60;  // ... and before they begin, including measurements
constexpr size_t kPlanned = 3;        // number of its finalists that become candidates; all of them if none fits
constexpr double kSpeedStep = 0.01;   // speeds are rounded to multiples of this, because plans show them

/// True if a run that continues under the plan has the curve of one device.
bool keeps_curve(const Plan& plan) {
  return find_schedule(plan.schedule, plan.name).flushes && plan.compression.kind == Compression::Kind::none;
}

double slowness_of(const Conditions& now, int worker) {
  return size_t(worker) < now.slowness.size() ? now.slowness[size_t(worker)] : 1;
}

/// Returns, by rank of `to`, the rank under `from`; -1: it had none.
std::vector<int> ranks_before(const std::vector<int>& from, const std::vector<int>& to) {
  std::vector<int> ranks;
  for (int worker : to) {
    const auto found = std::find(from.begin(), from.end(), worker);
    ranks.push_back(found == from.end() ? -1 : int(found - from.begin()));
  }
  return ranks;
}

}  // namespace

PlanForecaster::PlanForecaster(const RunSpec& experiment, const Model& model, const Plan& initial)
    : experiment_(experiment), model_(model), devices_(std::max(initial.devices, experiment.devices.front())) {
  if (!keeps_curve(initial))
    fail_user({"adapt", fmt::format("plan \"{}\"", initial.name),
               "its training curve differs from one device's (older weights, or compressed gradients), "
               "so no other plan can continue it",
               "begin with another plan, or leave out adapt"});
  Profile profile;
  profile.machine = fingerprint_of_this_machine(experiment.threads);
  cores_ = profile.machine.cores;
  if (!experiment.links && devices_ > 1) {
    std::vector<int> groups;
    for (int n = 2; n <= devices_; ++n) groups.push_back(n);
    profile.links = measure_links(groups);
  }
  source_ = measured_source(experiment, model, profile, devices_);
  const Conditions first = at_first();
  add(initial.name, initial, device_numbers(0, initial.devices), true);
  add_strategies(experiment.strategies, source_for(first, device_numbers(0, devices_)), device_numbers(0, devices_),
                 true);
  find_candidates(first, initial.name, kFirstSeconds);
  for (const Candidate& candidate : candidates_) forecast(candidate, first, find(initial.name));
  const auto& measured = dynamic_cast<const ProfiledCosts&>(*source_.layers);
  source_ = measured_source(experiment, model, measured.profile(), devices_, /*measures=*/false);
}

Conditions PlanForecaster::at_first() const {
  Conditions first;
  if (experiment_.links)
    first.links = {.latency = experiment_.links->at_first.latency, .bandwidth = experiment_.links->at_first.bandwidth};
  first.slowness.assign(size_t(devices_), 1.0);
  first.memory = experiment_.device_memory;
  return first;
}

const PlanForecaster::Candidate& PlanForecaster::find(const std::string& name) const {
  const auto found =
      std::find_if(candidates_.begin(), candidates_.end(), [&](const Candidate& c) { return c.name == name; });
  check_internal(found != candidates_.end(), "only candidates are requested");
  return *found;
}

void PlanForecaster::add(const std::string& name, const Plan& plan, const std::vector<int>& workers, bool is_constant) {
  if (!keeps_curve(plan)) return;
  const auto has_name = [&](const std::string& text) {
    return std::any_of(candidates_.begin(), candidates_.end(), [&](const Candidate& c) { return c.name == text; });
  };
  for (const Candidate& known : candidates_)
    if (known.workers == workers && is_same(known.plan, plan)) return;
  std::string unique = name;
  for (int again = 2; has_name(unique); ++again) unique = fmt::format("{} ({})", name, again);
  candidates_.push_back(
      {unique, plan, workers, compile(model_, plan, compile_options(experiment_, true)), is_constant});
}

/// Adds the strategies' plans for the devices of a source; the devices are these workers.
void PlanForecaster::add_strategies(const std::vector<std::string>& strategies, const CostSource& source,
                                    const std::vector<int>& workers, bool is_constant) {
  for (const std::string& strategy : strategies)
    for (const std::string& name : expand_strategy(strategy)) {
      if (is_planned(name)) continue;  // added separately
      try {
        const Plan plan = is_single(name) ? named_plan(name, model_, cluster_of(experiment_, 1), experiment_.batch, {})
                                          : make_plan(name, experiment_, model_, source);
        std::vector<int> used = workers;
        if (plan.devices > int(used.size())) continue;  // the file's plan is for more devices
        used.resize(size_t(plan.devices));
        add(is_constant ? name : plan.in_short(model_) + on_workers(used), plan, used, is_constant);
      } catch (const Error& error) {
        if (error.blame() != Blame::user) throw;  // too few workers or too small a batch: not a candidate
      }
    }
}

/// Adds the best plans that the exact planner finds within this many seconds, on any number of the first workers of
/// `order`.
void PlanForecaster::add_planned(const Conditions& now, const std::vector<int>& order, double seconds) {
  std::map<int, CostSource> sources;
  const auto source_of = [&](const std::vector<int>& first) -> const CostSource& {
    const int devices = int(first.size());
    const auto known = sources.find(devices);
    if (known != sources.end()) return known->second;
    return sources.emplace(devices, source_for(now, {order.begin(), order.begin() + devices})).first->second;
  };
  try {
    const BestPlan best = find_best_plan(experiment_, model_, {source_of, {device_numbers(0, devices_)}},
                                         {.objective = Objective::time, .limit = seconds, .thorough = false});
    const bool fits = !best.finalists.empty() && best.finalists.front().fits_simulated;
    const size_t most = fits ? kPlanned : best.finalists.size();
    for (size_t i = 0; i < std::min(most, best.finalists.size()); ++i) {
      const Plan& plan = best.finalists[i].rated.plan;
      const std::vector<int> used(order.begin(), order.begin() + plan.devices);
      add(plan.in_short(model_) + on_workers(used), plan, used, false);
    }
  } catch (const Error& error) {
    if (error.blame() != Blame::user) throw;  // it needs costs that have not been measured: not a candidate
  }
}

/// Returns the cost source for these workers' plans.
CostSource PlanForecaster::source_for(const Conditions& now, const std::vector<int>& workers) const {
  CostSource source = source_;
  source.cluster.devices.clear();
  source.slowness.clear();
  for (int worker : workers) {
    Device device = source_.cluster.devices[size_t(worker)];
    const double slowness = slowness_of(now, worker);
    if (slowness > 1)
      device.speed = std::max(kSpeedStep, std::round(device.speed / slowness / kSpeedStep) * kSpeedStep);
    device.memory = now.memory;
    source.cluster.devices.push_back(device);
    source.slowness.push_back(slowness);
  }
  if (experiment_.links) emulate_links(now.links.bandwidth, now.links.latency, cores_, source);
  return source;
}

Forecast PlanForecaster::forecast(const Candidate& candidate, const Conditions& now, const Candidate& current) const {
  const CostSource source = source_for(now, candidate.workers);
  PredictionOptions options;
  options.timeline = options.drawing = false;
  const RunResult row = predict(experiment_, model_, candidate.plan, source, options);
  Forecast forecast{.name = candidate.name, .step_seconds = row.step_seconds->median, .workers = candidate.workers};
  for (double share : row.busy_share) forecast.compute.push_back(share * row.step_seconds->median);
  if (now.memory > 0) forecast.missing = std::max<int64_t>(0, *row.predicted->peak_memory - now.memory);
  forecast.bytes_to_move = bytes_to_move(
      current.program, candidate.program, optimizer_state_count(experiment_.optimizer),
      int64_t(c10::elementSize(master_type(experiment_.precision))), ranks_before(current.workers, candidate.workers));
  return forecast;
}

void PlanForecaster::find_candidates(const Conditions& now, const std::string& current, double seconds) {
  std::erase_if(candidates_, [&](const Candidate& c) { return !c.is_constant && c.name != current; });
  std::vector<int> order = device_numbers(0, devices_);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return slowness_of(now, a) < slowness_of(now, b); });
  // All workers, and each set of workers that is faster than all others.
  for (int count = 1; count <= devices_; ++count) {
    const bool leaves_out = count < devices_;
    if (leaves_out && slowness_of(now, order[size_t(count) - 1]) == slowness_of(now, order[size_t(count)])) continue;
    std::vector<int> workers(order.begin(), order.begin() + count);
    std::sort(workers.begin(), workers.end());
    const CostSource source = source_for(now, workers);
    add_strategies(experiment_.strategies, source, workers, false);
    if (now.memory > 0) add_strategies(memory_savers(), source, workers, false);
  }
  add_planned(now, order, seconds);
}

Outlook PlanForecaster::outlook(const Conditions& now, const std::string& current) {
  const double begin = steady_seconds();
  find_candidates(now, current, kSearchSeconds);
  Outlook outlook;
  for (const Candidate& candidate : candidates_) {
    try {
      outlook.forecasts.push_back(forecast(candidate, now, find(current)));
    } catch (const Error& error) {
      // Degrees that were not measured: not a candidate.
      if (error.blame() != Blame::user || candidate.name == current) throw;
    }
  }
  outlook.seconds = steady_seconds() - begin;
  return outlook;
}

}  // namespace trireme
