#include "plan/device_orders.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "plan/cluster_file.h"

namespace trireme {
namespace {

// Device classes: three classes have six orders, and each order costs a search.
constexpr size_t kMostPermuted = 3;

using DeviceClass = std::tuple<int, double, int64_t, double, double, bool, double>;

const ClusterNode& node_of(const Cluster& cluster, const Device& device) {
  static const ClusterNode kNone;
  return size_t(device.node) < cluster.nodes.size() ? cluster.nodes[size_t(device.node)] : kNone;
}

DeviceClass class_of(const Cluster& cluster, const Device& device) {
  const ClusterNode& node = node_of(cluster, device);
  return {device.kind,       device.speed,     device.memory,      node.link.bandwidth,
          node.link.latency, node.link.shared, node.price_per_hour};
}

/// Groups device numbers by class. Devices are in file order; classes are in order of first appearance.
std::vector<std::vector<int>> by_class(const Cluster& cluster) {
  std::map<DeviceClass, size_t> number;
  std::vector<std::vector<int>> groups;
  for (int i = 0; i < cluster.size(); ++i) {
    const auto [at, fresh] = number.try_emplace(class_of(cluster, cluster.devices[size_t(i)]), groups.size());
    if (fresh) groups.emplace_back();
    groups[at->second].push_back(i);
  }
  return groups;
}

/// Returns all properties of the order that a plan can depend on: each device's class and node, with nodes numbered in
/// order of first use.
std::vector<std::pair<DeviceClass, int>> looks_of(const Cluster& cluster, const std::vector<int>& order) {
  std::map<int, int> number;
  std::vector<std::pair<DeviceClass, int>> looks;
  for (int index : order) {
    const Device& device = cluster.devices[size_t(index)];
    looks.emplace_back(class_of(cluster, device), number.try_emplace(device.node, int(number.size())).first->second);
  }
  return looks;
}

/// Returns the node's price per unit of speed, over all devices of the node.
double price_of_speed(const Cluster& cluster, const Device& device) {
  double speed = 0;
  for (const Device& other : cluster.devices) speed += other.node == device.node ? other.speed : 0;
  return node_of(cluster, device).price_per_hour / speed;
}

using Groups = std::vector<std::vector<int>>;

std::vector<Groups> orders_of(const Cluster& cluster, const Groups& groups) {
  std::vector<Groups> orders;
  if (groups.size() <= kMostPermuted) {
    std::vector<size_t> turn(groups.size());
    std::iota(turn.begin(), turn.end(), size_t{0});
    do {
      Groups& order = orders.emplace_back();
      for (size_t group : turn) order.push_back(groups[group]);
    } while (std::next_permutation(turn.begin(), turn.end()));
    return orders;
  }
  const auto front = [&](const std::vector<int>& group) -> const Device& {
    return cluster.devices[size_t(group.front())];
  };
  const auto least_first = [&](const std::function<double(const Device&)>& key) {
    Groups& order = orders.emplace_back(groups);
    std::stable_sort(order.begin(), order.end(),
                     [&](const auto& a, const auto& b) { return key(front(a)) < key(front(b)); });
  };
  least_first([](const Device& device) { return -device.speed; });
  least_first([](const Device& device) { return -double(device.memory); });
  least_first([&](const Device& device) { return price_of_speed(cluster, device); });
  return orders;
}

}  // namespace

std::vector<std::vector<int>> device_orders(const Cluster& cluster, int count) {
  std::vector<std::vector<int>> orders{device_numbers(0, cluster.size())};
  const Groups groups = by_class(cluster);
  if (groups.size() > 1)
    for (const Groups& order : orders_of(cluster, groups)) {
      orders.emplace_back();
      for (const std::vector<int>& group : order) orders.back().insert(orders.back().end(), group.begin(), group.end());
    }
  std::set<std::vector<std::pair<DeviceClass, int>>> seen;
  std::vector<std::vector<int>> kept;
  for (std::vector<int>& order : orders) {
    order.resize(size_t(count));
    if (seen.insert(looks_of(cluster, order)).second) kept.push_back(std::move(order));
  }
  return kept;
}

}  // namespace trireme
