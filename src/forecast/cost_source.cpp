#include "forecast/cost_source.h"

#include <algorithm>
#include <numeric>

#include "cost/cluster_links.h"
#include "cost/datasheet_costs.h"
#include "cost/links_of_speed.h"
#include "cost/profiled_costs.h"
#include "cost/profiled_links.h"
#include "plan/cluster_file.h"

namespace trireme {
namespace {

/// Describes links for planners, which use formulas: one node, with links as fast as the measured all-reduce.
void describe_links(const LinkMeasurement& links, Cluster& cluster) {
  Link link;
  if (!links.groups.empty() && links.groups.front().lines.count("all_reduce")) {
    const GroupMeasurement& group = links.groups.front();
    const double n = group.workers;
    link.bandwidth = 2 * (n - 1) / n * group.lines.at("all_reduce").bandwidth;
    link.latency = links.hand_over;
  }
  cluster.nodes = {ClusterNode{.link = link, .price_per_hour = 0, .instance = ""}};
}

/// Returns how many workers can compute at the same time. (A process may see only one GPU, and processes may be on
/// several machines.)
int places_there(const RunSpec& experiment, const Fingerprint& machine) {
  return experiment.processes && machine.gpus > 0 && experiment.gpus > 0 ? experiment.gpus : machine.places();
}

/// Replaces the links of a profile, which are between threads, by those of the workers' machines. `processes`: true if
/// the workers are processes, false if they are threads with emulated links.
void connect_machines(const ProcessMachines& machines, bool processes, CostSource& source) {
  Cluster& cluster = source.cluster;
  int nodes = 0;  // of the devices; there may be more ranks
  for (size_t d = 0; d < cluster.devices.size(); ++d) {
    cluster.devices[d].node = machines.of_rank[d];
    nodes = std::max(nodes, machines.of_rank[d] + 1);
  }
  const double price = cluster.nodes.empty() ? 0 : cluster.nodes.front().price_per_hour;
  cluster.nodes.assign(size_t(nodes), ClusterNode{.link = machines.within, .price_per_hour = price, .instance = ""});
  cluster.network = machines.network;
  const std::vector<int> cores(machines.cores.begin(), machines.cores.begin() + nodes);
  if (processes) {
    const WorkOfProcesses work{machines.work_within, machines.work_between, machines.redistributions};
    source.links = std::make_shared<LinksOfSpeed>(cluster, cores, work);
  } else {
    source.links = std::make_shared<LinksOfSpeed>(cluster, cores);
  }
  cluster.overlap = source.links->overlap();
}

/// True if on some machine the processes have more threads than the machine has cores. `threads`: number of threads by
/// rank, of the first ranks.
bool are_crowded(const ProcessMachines& machines, const std::vector<int>& threads) {
  std::vector<int> wanted(machines.cores.size());
  for (size_t rank = 0; rank < threads.size(); ++rank) wanted[size_t(machines.of_rank[rank])] += threads[rank];
  for (size_t m = 0; m < wanted.size(); ++m)
    if (wanted[m] > machines.cores[m]) return true;
  return false;
}

}  // namespace

SiteOptions site_options(const RunSpec& experiment) {
  return {experiment.precision, experiment.batch_norm, frozen_of(experiment), experiment.model_findings.tokens};
}

void emulate_links(double bandwidth, double latency, int cores, CostSource& source) {
  connect_machines({.of_rank = std::vector<int>(source.cluster.devices.size(), 0),
                    .cores = {cores},
                    .within = {.bandwidth = bandwidth, .latency = latency}},
                   /*processes=*/false, source);
}

int places_wanted(const RunSpec& experiment, const Fingerprint& machine, int workers) {
  if (machine.gpus > 0) return workers;
  const std::vector<int> threads = threads_of(experiment, workers);
  return std::accumulate(threads.begin(), threads.end(), 0);
}

bool is_crowded(const RunSpec& experiment, const Fingerprint& machine, int workers) {
  if (const ProcessMachines* const machines = experiment.process_machines.get())
    return are_crowded(*machines, threads_of(experiment, workers));
  return places_wanted(experiment, machine, workers) > places_there(experiment, machine);
}

std::string step_factors_name(const RunSpec& experiment, const Model& model) {
  const std::string name = step_factors_name(experiment.model_name, model.parameter_count(), experiment.precision);
  return experiment.processes ? name + ", processes" : name;
}

CostSource measured_source(const RunSpec& experiment, const Model& model, const Profile& profile, int devices,
                           bool measures) {
  CostSource source;
  source.cluster = cluster_of(experiment, devices);
  const double measured = source.cluster.devices.front().speed;  // layers are measured with its threads
  for (Device& device : source.cluster.devices) device.speed /= measured;
  const std::vector<int> threads = threads_of(experiment, devices);
  ProfiledCostsOptions options;
  options.sites = site_options(experiment);
  options.optimizer = experiment.optimizer;
  options.measures_missing = measures;
  if (const auto known = profile.step_factors.find(step_factors_name(experiment, model));
      known != profile.step_factors.end())
    options.factors = known->second;
  options.threads = threads.front();
  source.layers = std::make_shared<ProfiledCosts>(model, profile, options);
  const int workers = places_wanted(experiment, profile.machine, devices),
            places = places_there(experiment, profile.machine);
  const ProcessMachines* const machines = experiment.process_machines.get();
  if (is_crowded(experiment, profile.machine, devices)) source.sharing = options.factors.sharing;
  const Overlap overlap = experiment.processes ? Overlap::sums : Overlap::nothing;
  source.links = std::make_shared<ProfiledLinks>(profile.links, workers, places, overlap);
  source.cluster.overlap = source.links->overlap();
  source.library_memory = profile.device.library_memory;
  source.shares_memory = !experiment.private_replicas && profile.machine.gpus <= 1;  // see on_its_devices()
  describe_links(profile.links, source.cluster);
  source.cluster.nodes.front().price_per_hour = experiment.price_per_hour;
  source.cluster.price = {.currency = experiment.currency, .date = "", .source = experiment.price_note};
  if (machines) connect_machines(*machines, /*processes=*/true, source);
  if (machines && experiment.device == c10::DeviceType::CPU) source.messages = machines->buffers;
  if (experiment.links)
    emulate_links(experiment.links->at_first.bandwidth, experiment.links->at_first.latency, places, source);
  return source;
}

CostSource described_source(const Experiment& experiment, const Model& model, const Cluster& cluster,
                            const std::vector<int>& devices) {
  CostSource source;
  source.cluster = at_precision(chosen_devices(cluster, devices), name_of(experiment.precision));
  source.layers = std::make_shared<DatasheetCosts>(model, source.cluster, experiment.precision,
                                                   optimizer_state_count(experiment.optimizer));
  source.links = std::make_shared<ClusterLinks>(source.cluster);
  source.shares_memory = false;
  return source;
}

Overlap overlap_of(const RunSpec& experiment) {
  if (experiment.virtual_machines) return experiment.virtual_machines->cluster.overlap;
  return experiment.device == c10::DeviceType::CPU ? Overlap::sums : Overlap::nothing;
}

}  // namespace trireme
