#include "plan/cluster_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/counted.h"
#include "base/text.h"
#include "base/units.h"
#include "plan/price_file.h"
#include "trireme/config.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr int64_t kMostDevices = int64_t{1} << 20;
const std::vector<std::string> kPrecisions{"fp32", "bf16", "fp64"};

/// Throws a user error if the key is missing. Getters of ConfigTable that take a unit would return a default.
void require(const ConfigTable& table, std::string_view key) {
  if (!table.has(key))
    table.fail(key, fmt::format("key \"{}\" is missing: it has no default", key), "add it to the file");
}

std::string required_string(const ConfigTable& table, std::string_view key) {
  require(table, key);
  return table.require_string(key);
}

double required_double(const ConfigTable& table, std::string_view key) {
  require(table, key);
  return table.require_double(key);
}

/// Returns `value`. Throws a user error unless it is positive and finite.
template <class Value>
Value positive(const ConfigTable& table, std::string_view key, Value value) {
  if (!(value > 0)) table.fail(key, "it must be more than zero", "correct it");
  if (!std::isfinite(double(value))) table.fail(key, "it must be finite", "correct it");
  return value;
}

constexpr double kLeastSpeed = 1;      // FLOP/s or bytes/s; with less, a step would take far too long to be useful
constexpr double kMostLatency = 3600;  // seconds

double speed(const ConfigTable& table, std::string_view key, double value) {
  if (positive(table, key, value) < kLeastSpeed)
    table.fail(key, "it is too small for a real device",
               "correct the unit: for example \"15.7 TFLOP/s\", \"10 Gbit/s\"");
  return value;
}

double latency(const ConfigTable& table, std::string_view key) {
  const double seconds = table.get_seconds(key, 0);
  if (!(seconds <= kMostLatency))
    table.fail(key, "it is longer than an hour", "correct the unit: for example \"5 us\"");
  return seconds;
}

bool is_table(const ConfigTable& table, const char* key) {
  const nlohmann::json json = table.to_json();
  return json.contains(key) && json.at(key).is_object();
}

/// Returns `key.precision` if the key has a value for each precision, else `key`.
std::string of_precision(const ConfigTable& device, const char* key, const std::string& precision) {
  return is_table(device, key) ? fmt::format("{}.{}", key, precision) : std::string(key);
}

/// A share of a datasheet's number; `usual` if the file does not give it.
double share(const ConfigTable& device, const char* key, double usual) {
  if (!device.has(key)) return usual;
  const double value = required_double(device, key);
  if (!(value > 0 && value <= 1)) device.fail(key, "it is a share: more than 0, at most 1", "for example 0.85");
  return value;
}

DeviceSpeed read_speed(const ConfigTable& device, const std::string& precision) {
  const std::string peak = "flops." + precision;
  DeviceSpeed at{.peak_flops = speed(device, peak, device.get_flop_rate(peak, 0))};
  const std::string efficiency = of_precision(device, "greatest_efficiency", precision);
  at.greatest_efficiency = required_double(device, efficiency);
  if (!(at.greatest_efficiency > 0 && at.greatest_efficiency <= 1))
    device.fail(efficiency, "it is a share of the peak: more than 0, at most 1",
                "a large operator reaches 0.6 to 0.9 of most devices");
  const std::string half_work = of_precision(device, "half_work", precision);
  require(device, half_work);
  at.half_work = device.get_flops(half_work, 0);
  if (!std::isfinite(at.half_work)) device.fail(half_work, "it is too large", "a few GFLOP are usual");
  return at;
}

/// FLOP/s of a large operator.
double greatest_speed(const DeviceSpeed& at) { return at.peak_flops * at.greatest_efficiency; }

DeviceKind read_kind(const ConfigTable& device, const std::string& name) {
  DeviceKind kind;
  kind.name = name;
  require(device, "flops");
  const ConfigTable flops = device.table("flops");
  for (const std::string& precision : kPrecisions)
    if (flops.has(precision)) kind.speeds[precision] = read_speed(device, precision);
  if (kind.speeds.empty())
    device.fail("flops", "it must give the speed for at least one precision of " + join(kPrecisions),
                "write { fp32 = \"15.7 TFLOP/s\" }");
  for (const char* key : {"memory", "memory_bandwidth", "launch"}) require(device, key);
  kind.memory = positive(device, "memory", device.get_bytes("memory", 0));
  kind.reserved = device.get_bytes("reserved", 0);
  if (kind.reserved >= kind.memory)
    device.fail("reserved", fmt::format("nothing of the {} remains for tensors", format_bytes(kind.memory)),
                "1 to 3 GB are usual");
  kind.allocator_overhead = device.get_double("allocator_overhead", 0);
  if (!(kind.allocator_overhead >= 0 && kind.allocator_overhead <= 1))
    device.fail("allocator_overhead", "it must be from 0 to 1", "0.2 is usual");
  kind.memory_bandwidth = speed(device, "memory_bandwidth", device.get_bandwidth("memory_bandwidth", 0));
  kind.memory_efficiency = share(device, "memory_efficiency", 1);
  kind.launch = latency(device, "launch");
  if (device.has("start")) kind.start = latency(device, "start");
  kind.fused_attention = share(device, "fused_attention", 0);
  kind.source = required_string(device, "source");
  return kind;
}

Link read_link(const ConfigTable& link) {
  for (const char* key : {"bandwidth", "latency"}) require(link, key);
  return {.bandwidth = speed(link, "bandwidth", link.get_bandwidth("bandwidth", 0)),
          .latency = latency(link, "latency")};
}

/// `count` devices of one kind.
struct DeviceRun {
  int kind = 0;
  int64_t count = 0;
};

class ClusterReader {
 public:
  ClusterReader(const std::filesystem::path& path, ConfigTable file) : path_(path), file_(std::move(file)) {}

  Cluster read() {
    cluster_.name = required_string(file_, "name");
    cluster_.description = file_.get_string("description", "");
    const ConfigTable devices = file_.table("device");
    for (const std::string& name : devices.keys()) cluster_.kinds.push_back(read_kind(devices.table(name), name));
    if (cluster_.kinds.empty()) file_.fail("device", "there is no device", "describe one below a line [device.NAME]");
    read_price_table();
    const std::vector<ConfigTable> nodes = file_.tables("node");
    if (nodes.empty()) file_.fail("node", "there is no node", "describe one below a line [[node]]");
    for (const ConfigTable& node : nodes) add_nodes(node);
    read_network();
    if (file_.get_bool("nccl_collectives", false)) cluster_.collectives = Collectives::nccl;
    read_overlap();
    file_.finish();
    return std::move(cluster_);
  }

 private:
  int kind_named(const ConfigTable& table, const char* key) const {
    const std::string name = required_string(table, key);
    std::vector<std::string> names;
    for (size_t i = 0; i < cluster_.kinds.size(); ++i) {
      if (cluster_.kinds[i].name == name) return int(i);
      names.push_back(cluster_.kinds[i].name);
    }
    const std::string near = closest_match(name, names);
    table.fail(key, "the file describes no such device; it has " + join(names),
               near.empty() ? fmt::format("describe it below a line [device.{}]", name)
                            : fmt::format("did you mean \"{}\"?", near));
  }

  /// Reads `device = "V100"` with `devices = 8`, or `devices = [{ device = "V100", count = 4 }, ...]`.
  std::vector<DeviceRun> read_runs(const ConfigTable& node) const {
    if (node.has("device")) return {{kind_named(node, "device"), node.get_int("devices", 1, 1)}};
    std::vector<DeviceRun> runs;
    for (const ConfigTable& run : node.tables("devices"))
      runs.push_back({kind_named(run, "device"), run.get_int("count", 1, 1)});
    if (runs.empty())
      node.fail("device", "the node has no devices",
                "give device = \"NAME\" and devices = COUNT, or a list devices = [{ device, count }]");
    return runs;
  }

  void add_nodes(const ConfigTable& table) {
    const int64_t count = table.get_int("count", 1, 1);
    const std::vector<DeviceRun> runs = read_runs(table);
    int64_t per_node = 0;
    for (const DeviceRun& run : runs) {
      if (run.count > kMostDevices)
        table.fail("devices", fmt::format("a cluster has at most {} devices", kMostDevices), "describe a smaller one");
      per_node += run.count;
    }
    if (count > kMostDevices || count * per_node > kMostDevices - cluster_.size())
      table.fail("count", fmt::format("a cluster has at most {} devices", kMostDevices), "describe a smaller one");
    ClusterNode node;
    if (per_node > 1) require(table, "link");
    if (table.has("link")) {
      const ConfigTable link = table.table("link");
      node.link = read_link(link);
      node.link.shared = link.get_bool("shared", false);
    }
    read_node_price(table, node);
    for (int64_t n = 0; n < count; ++n) {
      for (const DeviceRun& run : runs) {
        const DeviceKind& kind = cluster_.kinds[size_t(run.kind)];
        const Device device{.memory = kind.for_tensors(),
                            .speed = relative_speed(kind),
                            .kind = run.kind,
                            .node = int(cluster_.nodes.size())};
        cluster_.devices.insert(cluster_.devices.end(), size_t(run.count), device);
      }
      cluster_.nodes.push_back(node);
    }
  }

  /// Returns the speed on large operators, relative to the file's first kind, at a precision that both kinds have.
  double relative_speed(const DeviceKind& kind) const {
    for (const std::string& precision : kPrecisions) {
      const auto own = kind.speeds.find(precision), first = cluster_.kinds.front().speeds.find(precision);
      if (own == kind.speeds.end() || first == cluster_.kinds.front().speeds.end()) continue;
      return greatest_speed(own->second) / greatest_speed(first->second);
    }
    file_.fail("device", fmt::format("{} and {} have no precision in common", kind.name, cluster_.kinds.front().name),
               "give the speeds of both at one precision");
  }

  void read_price_table() {
    const ConfigTable price = file_.table("price");
    if (price.has("table")) prices_ = read_prices(path_.parent_path() / price.require_string("table"));
    cluster_.price.currency = price.get_string("currency", prices_.empty() ? "USD" : prices_.front().currency);
    cluster_.price.date = price.get_string("date", "");
    if (price.has("date") && !is_iso_date(cluster_.price.date))
      price.fail("date", "a price needs a date", "write it like \"2023-06-30\" or \"2023-06\"");
    cluster_.price.source = price.get_string("source", "");
    if (price.has("source") && cluster_.price.source.empty())
      price.fail("source", "a price needs a source", "name the list or the offer");
  }

  /// Sets the node's own price, or the price of its instance in the price table.
  void read_node_price(const ConfigTable& table, ClusterNode& node) {
    node.instance = table.get_string("instance", "");
    if (table.has("price_per_hour")) {
      node.price_per_hour = positive(table, "price_per_hour", table.require_double("price_per_hour"));
      for (const char* key : {"price.date", "price.source"})
        if (!file_.has(key))
          table.fail("price_per_hour", fmt::format("a price needs {}", key), fmt::format("add {}", key));
      return;
    }
    if (node.instance.empty() || !file_.has("price.table")) return;
    std::vector<std::string> names;
    for (const InstancePrice& price : prices_) {
      names.push_back(price.name);
      if (price.name != node.instance) continue;
      if (price.currency != cluster_.price.currency)
        file_.fail("price.currency", fmt::format("the price table is in {}", price.currency), "use one currency");
      node.price_per_hour = price.per_hour;
      note_price(price);
      return;
    }
    const std::string near = closest_match(node.instance, names);
    table.fail("instance", "the price table has no such instance",
               near.empty() ? "add it there, or give price_per_hour" : fmt::format("did you mean \"{}\"?", near));
  }

  /// Adds a price's origin to the cluster's. With several instances, the date is the oldest, and every source is
  /// listed.
  void note_price(const InstancePrice& price) {
    PriceTag& tag = cluster_.price;
    if (tag.date.empty() || price.date < tag.date) tag.date = price.date;
    if (tag.source.find(price.source) == std::string::npos)
      tag.source += (tag.source.empty() ? "" : "; ") + price.source;
  }

  void read_network() {
    if (cluster_.nodes.size() > 1) require(file_, "network");
    if (!file_.has("network")) return;
    const ConfigTable network = file_.table("network");
    cluster_.network = read_link(network);
    Fabric& fabric = cluster_.fabric;
    std::map<int, int64_t> devices;  // by node
    for (const Device& device : cluster_.devices) ++devices[device.node];
    int64_t most = 1;
    for (const auto& [node, count] : devices) most = std::max(most, count);
    const int64_t rails = network.get_int("rails", 1, 1);
    if (rails > most)
      network.fail("rails", fmt::format("no node has more than {}, and each uses one adapter", counted(most, "device")),
                   fmt::format("write at most {}", most));
    fabric.rails = int(rails);
    fabric.nodes_per_switch = int(std::min(network.get_int("nodes_per_switch", 0, 1), int64_t(cluster_.nodes.size())));
    fabric.oversubscription = network.get_double("oversubscription", 1, 1);
    if (fabric.oversubscription > 1 && fabric.nodes_per_switch == 0)
      network.fail("oversubscription", "it is of the connections between switches",
                   "add nodes_per_switch, the number of nodes below one");
  }

  void read_overlap() {
    cluster_.overlap = file_.get_bool("overlaps", true) ? Overlap::all : Overlap::nothing;
    if (cluster_.overlap == Overlap::nothing && file_.has("overlap"))
      file_.fail("overlap", "with overlaps = false, devices do not communicate while they compute",
                 "remove one of the two");
    const ConfigTable overlap = file_.table("overlap");
    cluster_.compute_slowdown = positive(overlap, "compute_slowdown", overlap.get_double("compute_slowdown", 1, 1));
    cluster_.transfer_slowdown = positive(overlap, "transfer_slowdown", overlap.get_double("transfer_slowdown", 1, 1));
  }

  std::filesystem::path path_;
  ConfigTable file_;
  Cluster cluster_;
  std::vector<InstancePrice> prices_;
};

}  // namespace

Cluster read_cluster(const std::filesystem::path& path) {
  return ClusterReader(path, ConfigTable::from_file(path)).read();
}

Cluster read_cluster_text(std::string_view text, const std::filesystem::path& path) {
  return ClusterReader(path, ConfigTable::from_string(text, path.string())).read();
}

std::vector<int> device_numbers(int first, int count) {
  std::vector<int> numbers(size_t(count), 0);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

int devices_per_node(const Cluster& cluster) {
  std::map<int, int> counts;
  for (const Device& device : cluster.devices) ++counts[device.node];
  const int first = counts.begin()->second;
  return std::all_of(counts.begin(), counts.end(), [&](const auto& c) { return c.second == first; }) ? first : 0;
}

Cluster chosen_devices(const Cluster& cluster, const std::vector<int>& devices) {
  Cluster part = cluster;
  part.devices.clear();
  part.nodes.clear();
  std::map<int, int> number;  // number in the part, by the node's number in the cluster
  for (int index : devices) {
    if (index < 0 || index >= cluster.size())
      fail_user({.where = fmt::format("cluster {}", cluster.name),
                 .what = fmt::format("device {}", index),
                 .why = fmt::format("its devices are 0 to {}", cluster.size() - 1),
                 .next = "choose among those, or describe more nodes"});
    Device device = cluster.devices[size_t(index)];
    const auto [node, fresh] = number.try_emplace(device.node, int(number.size()));
    if (fresh && !cluster.nodes.empty()) part.nodes.push_back(cluster.nodes[size_t(device.node)]);
    device.node = node->second;
    part.devices.push_back(device);
  }
  return part;
}

Cluster at_precision(Cluster cluster, const std::string& precision) {
  if (cluster.kinds.empty()) return cluster;
  for (const DeviceKind& kind : cluster.kinds)
    if (!kind.speeds.count(precision)) return cluster;
  for (Device& device : cluster.devices)
    device.speed = greatest_speed(cluster.kinds[size_t(device.kind)].speeds.at(precision)) /
                   greatest_speed(cluster.kinds.front().speeds.at(precision));
  return cluster;
}

Cluster first_devices(const Cluster& cluster, int count) {
  if (count < 1 || count > cluster.size())
    fail_user({.where = fmt::format("cluster {}", cluster.name),
               .what = counted(count, "device"),
               .why = fmt::format("it has {}", cluster.size()),
               .next = "use fewer, or describe more nodes"});
  return chosen_devices(cluster, device_numbers(0, count));
}

}  // namespace trireme
