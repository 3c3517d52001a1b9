#include "cli/described_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/counted.h"
#include "base/json_file.h"
#include "cli/plan_choice.h"
#include "experiment/make_plan.h"
#include "forecast/agreement_plan.h"
#include "plan/strategy.h"
#include "trireme/error.h"
#include "update/registry.h"
#include "update/synchronous.h"

namespace trireme {
namespace {

/// The devices that a plan needs.
struct Asked {
  int devices = 0;
  std::string where;        ///< the source of the number: "--devices", the experiment's key, the plan
  bool has_policy = false;  ///< its replicas agree by an update policy
  int of_replica = 0;       ///< in a plan file with a policy: the devices of a replica
};

int64_t whole_number_in(const nlohmann::json& json, const char* key, int64_t otherwise) {
  return json.is_object() && json.contains(key) && json.at(key).is_number_integer() ? json.at(key).get<int64_t>()
                                                                                    : otherwise;
}

Asked asked_by_file(const std::string& file) {
  const nlohmann::json json = read_json_file(file);
  const int64_t of_replica = whole_number_in(json, "devices", 0);
  const int64_t devices = of_replica * whole_number_in(json, "replicas", 1);
  const bool readable = devices > 0 && devices <= kMaxPlanDevices;
  const bool has_policy = json.is_object() && json.contains("agreement");
  const bool of_workers =
      has_policy && json.at("agreement").is_string() && is_synchronous(json.at("agreement").get<std::string>());
  return {readable ? int(devices) : 0, file, has_policy, !readable ? 0 : of_workers ? 1 : int(of_replica)};
}

Asked asked_by(const std::string& plan, const std::string& where, const Asked& usual) {
  if (is_plan_file(plan)) return asked_by_file(plan);
  Asked asked = usual;
  asked.has_policy = is_update_policy(plan);
  if (asked.has_policy) return asked;
  if (is_single(plan)) return {1, plan};
  if (const std::optional<int> devices = devices_of_degrees(plan)) return {*devices, fmt::format("{} {}", where, plan)};
  return asked;
}

void check_size(const Asked& asked, const Cluster& cluster, const std::string& source) {
  if (asked.devices <= cluster.size()) return;
  fail_user({asked.where, counted(asked.devices, "device"),
             fmt::format("cluster {} ({}) has {}", cluster.name, source, cluster.size()),
             fmt::format("use at most {}, or describe more nodes in the file", cluster.size())});
}

}  // namespace

void check_described_devices(const std::vector<std::string>& plans, const std::string& where, int usual,
                             const ExperimentOptions& options, const Experiment& experiment,
                             const CostSourceOptions& costs) {
  std::optional<Cluster> cluster;
  if (!costs.cluster.empty()) cluster = read_cluster(costs.cluster);
  const Asked by_number{usual, options.devices.empty() ? experiment.where("devices") : "--devices"};
  const auto check = [&](const std::string& plan) {
    check_plan_name(plan, where);
    const Asked asked = asked_by(plan, where, by_number);
    if (cluster) return check_size(asked, *cluster, costs.cluster.string());
    if (asked.has_policy && experiment.replicas.clock && experiment.replicas.clock->cluster)
      return check_size(asked, *experiment.replicas.clock->cluster, experiment.where("update.virtual.cluster"));
    cluster_of(experiment, asked.devices);  // an error if its lists are shorter
  };
  for (const std::string& written : plans)
    for (const std::string& plan : expand_strategy(written)) check(plan);
}

RunSpec of_row(const RunSpec& experiment, const std::string& plan, int usual) {
  if (!awaits_devices(experiment)) return experiment;
  const Asked asked = asked_by(plan, "--plan", {usual, "--devices"});
  const int devices = std::max(1, asked.devices);  // what is wrong with a plan file is said when it is read
  if (!is_plan_file(plan)) return with_batch_of(experiment, plan, devices);
  const bool of_replica = asked.has_policy && experiment.replicas.batch_per_replica;
  return with_batch_on(experiment, of_replica ? std::max(1, asked.of_replica) : devices);
}

}  // namespace trireme
