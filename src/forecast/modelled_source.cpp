#include "forecast/modelled_source.h"

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "forecast/predict_program.h"
#include "plan/cluster_file.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// Seconds of simulated steps, cached by a replica's devices and number of samples.
class PredictedSteps {
 public:
  PredictedSteps(const RunSpec& experiment, const Model& model, const Plan& plan, int replicas)
      : experiment_(experiment), model_(model), plan_(plan.inner()) {
    const ModelledClock& clock = *experiment_.replicas.clock;
    if (clock.cluster) cluster_ = first_devices(*clock.cluster, replicas * plan.devices);
    seconds(0, std::max<int64_t>(1, experiment.batch / replicas));  // throws errors early
  }

  double seconds(int replica, int64_t samples) const {
    const Devices devices = devices_of_replica(replica);
    MutexLock lock(mutex_);
    const auto [known, is_new] = known_.try_emplace({devices, samples}, 0.0);
    if (is_new) known->second = predicted(replica, samples);
    return known->second / (cluster_.devices.empty() ? speed_of(experiment_, replica) : 1);
  }

 private:
  /// Kind, node relative to the first device's node, and its link: bandwidth, latency, whether it is shared.
  using Devices = std::vector<std::tuple<int, int, double, double, bool>>;

  Devices devices_of_replica(int replica) const {
    Devices devices;
    for (int d = 0; d < plan_.devices && !cluster_.devices.empty(); ++d) {
      const Device& device = cluster_.devices[size_t(replica * plan_.devices + d)];
      const Link& link = cluster_.nodes[size_t(device.node)].link;
      devices.emplace_back(device.kind, device.node - cluster_.devices[size_t(replica) * size_t(plan_.devices)].node,
                           link.bandwidth, link.latency, link.shared);
    }
    return devices;
  }

  double predicted(int replica, int64_t samples) const {
    RunSpec one = experiment_;
    one.batch = std::max<int64_t>(samples, 1);
    const ModelledClock& clock = *experiment_.replicas.clock;
    const int n = plan_.devices;
    const CostSource source = clock.cluster ? described_source(one, model_, cluster_, device_numbers(replica * n, n))
                                            : measured_source(one, model_, *clock.profile, n, /*measures=*/false);
    return predict_program(one, model_, plan_, source, without_pictures()).row.step_seconds->median;
  }

  const RunSpec experiment_;
  const Model& model_;
  const Plan plan_;
  Cluster cluster_;  ///< has no devices if the seconds come from a profile
  mutable Mutex mutex_;
  mutable std::map<std::pair<Devices, int64_t>, double> known_ TRIREME_GUARDED_BY(mutex_);
};

}  // namespace

SecondsBySamples seconds_by_samples(const RunSpec& experiment, const Model& model, const Plan& plan, int replicas) {
  const ModelledClock& clock = *experiment.replicas.clock;
  if (clock.cluster || clock.profile) {
    const auto predicted = std::make_shared<const PredictedSteps>(experiment, model, plan, replicas);
    return [predicted](int replica, int64_t samples) { return predicted->seconds(replica, samples); };
  }
  std::vector<double> speeds;
  for (int r = 0; r < replicas; ++r) speeds.push_back(speed_of(experiment, r));
  return [speeds, fixed = clock.step_seconds, sample = clock.sample_seconds](int replica, int64_t samples) {
    return (fixed + sample * double(samples)) / speeds[size_t(replica)];
  };
}

VirtualLinks links_between_replicas(const Cluster& cluster, int replicas, int devices,
                                    std::optional<LinkSpeed> server) {
  const bool has_network = cluster.nodes.size() > 1;
  std::vector<int> of_node(cluster.nodes.size());
  const auto node_of = [&](int replica) { return size_t(cluster.devices[size_t(replica * devices)].node); };
  for (int r = 0; r < replicas; ++r) ++of_node[node_of(r)];
  VirtualLinks links{.replicas = {}, .server = {}, .server_machines = 1};
  for (int r = 0; r < replicas; ++r) {
    const Link& link = has_network ? cluster.network : cluster.nodes[node_of(r)].link;
    const double users = has_network   ? std::max(of_node[node_of(r)], cluster.fabric.rails)
                         : link.shared ? of_node[node_of(r)]
                                       : 1;
    links.replicas.push_back({link.bandwidth / users, link.latency});
    links.server = server.value_or(LinkSpeed{link.bandwidth, link.latency});
  }
  return links;
}

VirtualLinks modelled_links(const Experiment& experiment, int replicas, int devices) {
  const ModelledClock& clock = *experiment.replicas.clock;
  if (!clock.cluster) return {{clock.link}, clock.server_link.value_or(LinkSpeed{}), 1};
  return links_between_replicas(first_devices(*clock.cluster, replicas * devices), replicas, devices,
                                clock.server_link);
}

double speed_of(const Experiment& experiment, int device) {
  const std::vector<double>& speeds = experiment.device_speeds;
  return speeds.empty() ? 1 : speeds[size_t(device) % speeds.size()];
}

}  // namespace trireme
