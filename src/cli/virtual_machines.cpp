#include "cli/virtual_machines.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/plan_choice.h"
#include "comm/backend_list.h"
#include "cost/profiled_costs.h"
#include "experiment/make_plan.h"
#include "experiment/replica_spec.h"
#include "forecast/predict.h"
#include "metrics/result.h"
#include "plan/cluster_file.h"
#include "plan/strategy.h"
#include "train/trainer.h"
#include "trireme/error.h"

namespace trireme {

void refuse_processes() {
  const std::string name = kVirtualBackend.name;
  fail_user({"--backend", name, "workers in modelled time are threads of one process",
             "start it once: trireme train ... --devices 8 --backend " + name});
}

void refuse_described_machines(const CostSourceOptions& costs) {
  if (costs.cluster.empty()) return;
  fail_user({"--cluster", costs.cluster.string(), "without --backend, training runs on this machine",
             fmt::format("add --backend {} to train in modelled time", kVirtualBackend.name)});
}

void check_virtual_time(const Experiment& experiment, const std::string& plan, const CostSourceOptions& costs) {
  const auto refuse = [](const std::string& what, const std::string& why, const std::string& next) {
    fail_user({fmt::format("--backend {}", kVirtualBackend.name), what, why, next});
  };
  if (is_update_policy(plan) && experiment.replicas.clock)
    refuse("[update.virtual] of " + experiment.file.string(), "already describes the machines",
           "leave it out, or leave out --backend");
  if (experiment.adapt)
    refuse("adapt = true", "a run that adapts measures real time", "leave it out: --set adapt=false");
  if (!costs.cluster.empty() && experiment.links)
    refuse("[cluster.link] of " + experiment.file.string(), "the links are those of " + costs.cluster.string(),
           "leave out one of them");
  if (!costs.cluster.empty()) return;
  if (!experiment.links)
    refuse(experiment.file.string(), "the links between the machines are not given",
           "name a cluster file with --cluster, or write [cluster.link], for machines like this one: --set "
           "'cluster.link.bandwidth=\"1 Gbit/s\"'");
  if (!experiment.links->changes.empty())
    refuse("[[cluster.link.change]]", "links of modelled machines cannot change", "leave it out");
}

Plan choose_virtual_plan(const std::string& name, const std::vector<int>& devices, const RunSpec& experiment,
                         const Model& model, Predictions& predictions) {
  if (is_plan_file(name) || !(predictions.is_described() || is_planned(name)))
    return choose_plan(name, devices, experiment, model);
  check_plan_name(name, "--plan");
  const int count = !devices.empty() ? devices.front() : devices_of_degrees(name).value_or(experiment.devices.front());
  check_runs_here(count, "--plan " + name);
  Plan plan = predictions.plan(name, count);
  check_compiles(plan, experiment, model, "plan " + name);
  return plan;
}

namespace {

/// Returns the modelled clock of replicas, with the source of its seconds.
ModelledClock clock_of(const Plan& plan, Predictions& predictions, const std::filesystem::path& cluster,
                       const Experiment& experiment) {
  ModelledClock clock;
  if (predictions.is_described()) {
    clock.cluster = std::make_shared<const Cluster>(read_cluster(cluster));
    return clock;
  }
  predictions.settled_source(plan);  // measures the layers
  clock.profile =
      std::make_shared<const Profile>(dynamic_cast<const ProfiledCosts&>(*predictions.source(plan).layers).profile());
  clock.link = experiment.links->at_first;
  clock.server_link = experiment.links->at_first;
  return clock;
}

}  // namespace

void live_in_virtual_time(const Plan& plan, Predictions& predictions, const CostSourceOptions& costs,
                          RunSpec& experiment) {
  experiment.virtual_machines_in_words = predictions.in_words();
  if (predictions.is_described() && experiment.device_memory == 0) {
    int64_t least = 0;  // one limit applies to all devices
    for (const Device& device : predictions.source(plan).cluster.devices)
      if (device.memory > 0) least = least == 0 ? device.memory : std::min(least, device.memory);
    experiment.device_memory = least;
  }
  if (!plan.agreement.empty()) {
    experiment.replicas.clock = clock_of(plan, predictions, costs.cluster, experiment);
    experiment.links.reset();
    experiment.private_replicas = false;  // they were set because of the links, which modelled time replaces
    return;
  }
  experiment.private_replicas = true;
  experiment.virtual_machines = std::make_shared<const CostSource>(predictions.settled_source(plan));
}

}  // namespace trireme
