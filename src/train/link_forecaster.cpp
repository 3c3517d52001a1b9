#include "train/link_forecaster.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "cost/links_of_speed.h"
#include "plan/named.h"
#include "program/compile.h"
#include "program/schedules/schedule.h"
#include "runtime/migrate.h"

namespace trireme {
namespace {

/// Whether a run that goes on under it keeps the curve of one device.
bool keeps_curve(const Plan& plan) {
  return find_schedule(plan.schedule, plan.name).flushes && plan.compression.kind == Compression::Kind::none;
}

}  // namespace

LinkForecaster::LinkForecaster(const Experiment& experiment, const Model& model, const Plan& initial)
    : experiment_(experiment), model_(model) {
  if (!experiment.links)
    fail_user({fmt::format("{}: adapt", experiment.file.string()), "true", "workers of one process have no links that could change",
               "say how fast links between them are to be: [cluster.link] bandwidth = \"1 Gbit/s\""});
  const int devices = std::max(initial.devices, experiment.devices.front());
  Profile profile;
  profile.machine = fingerprint_of_this_machine(experiment.threads);
  cores_ = profile.machine.cores;
  source_ = measured_source(experiment, model, profile, devices);
  add(initial.name, initial);
  for (const std::string& strategy : experiment.strategies)
    for (const std::string& name : expand_strategy(strategy)) add_strategy(name);
  forecasts(first_links(), initial.name);
}

void LinkForecaster::add_strategy(const std::string& name) {
  Plan plan;
  try {
    plan = is_single(name) ? named_plan(name, model_, cluster_of(experiment_, 1), experiment_.batch, {})
                           : make_plan(name, experiment_, model_, source_);
    if (keeps_curve(plan)) add(name, plan);
  } catch (const Error& error) {
    if (error.blame() != Blame::user) throw;  // too few workers, too small a batch: no candidate
  }
}

void LinkForecaster::add(const std::string& name, const Plan& plan) {
  const std::string text = plan.in_short(model_);
  for (const Candidate& known : candidates_)
    if (known.name == name || known.plan.in_short(model_) == text) return;
  candidates_.push_back({name, plan, compile(model_, plan, compile_options(experiment_, true))});
}

LinkEstimate LinkForecaster::first_links() const {
  return {.latency = experiment_.links->at_first.latency, .bandwidth = experiment_.links->at_first.bandwidth};
}

std::vector<std::string> LinkForecaster::candidates() const {
  std::vector<std::string> names;
  for (const Candidate& candidate : candidates_) names.push_back(candidate.name);
  return names;
}

size_t LinkForecaster::index_of(const std::string& name) const {
  const auto found = std::find_if(candidates_.begin(), candidates_.end(), [&](const Candidate& c) { return c.name == name; });
  check_internal(found != candidates_.end(), "only candidates are asked for");
  return size_t(found - candidates_.begin());
}

std::vector<Forecast> LinkForecaster::forecasts(const LinkEstimate& links, const std::string& current) {
  source_.links = std::make_shared<LinksOfSpeed>(source_.cluster.size(), cores_, links.bandwidth, links.latency);
  const Program& now = candidates_[index_of(current)].program;
  const int states = optimizer_state_count(experiment_.optimizer);
  const auto value_bytes = int64_t(c10::elementSize(master_type(experiment_.precision)));
  PredictionOptions options;
  options.timeline = false;
  std::vector<Forecast> forecasts;
  for (const Candidate& candidate : candidates_) {
    const RunResult row = predict(experiment_, model_, candidate.plan, source_, options);
    forecasts.push_back({candidate.name, row.step_seconds->median, bytes_to_move(now, candidate.program, states, value_bytes)});
  }
  return forecasts;
}

}  // namespace trireme
