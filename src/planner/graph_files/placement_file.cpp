#include "planner/graph_files/placement_file.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/json_file.h"
#include "base/text.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr double kSameCost = 1e-6;  // costs of one node's edges may differ by this, as in the published programs
constexpr int kMostDevices = 1 << 20;

/// Reads values of one JSON object. `path` is its position in the file, such as "nodes[3]".
class ObjectReader {
 public:
  ObjectReader(const nlohmann::json& json, const std::string& where, std::string path)
      : json_(json), where_(where), path_(std::move(path)) {
    if (!json.is_object()) fail(path_, "is not an object");
  }

  bool has(const char* key) const { return json_.contains(key); }
  double number(const char* key) const {
    const nlohmann::json& value = at(key);
    if (!value.is_number() || !(value.get<double>() >= 0 && value.get<double>() <= kLargestNumber))
      fail(place(key), fmt::format("{} is not a number from 0 to {:g}", shown(value), kLargestNumber));
    return value.get<double>();
  }
  int whole(const char* key, int least = std::numeric_limits<int>::min(),
            int most = std::numeric_limits<int>::max()) const {
    const nlohmann::json& value = at(key);
    if (!value.is_number_integer() || value.get<int64_t>() < least || value.get<int64_t>() > most)
      fail(place(key), fmt::format("{} is not a whole number{}", shown(value), least == 0 ? " of at least 0" : ""));
    return value.get<int>();
  }
  bool truth(const char* key) const {
    const nlohmann::json& value = at(key);
    if (value.is_boolean()) return value.get<bool>();
    if (value.is_number_integer() && (value == 0 || value == 1)) return value == 1;
    fail(place(key), fmt::format("{} is neither true, false, 1 nor 0", shown(value)));
  }
  const nlohmann::json& array(const char* key) const {
    if (!at(key).is_array()) fail(place(key), "is not an array");
    return at(key);
  }
  std::string place(const char* key) const { return path_.empty() ? key : fmt::format("{}.{}", path_, key); }
  [[noreturn]] void fail(const std::string& place, const std::string& why) const {
    fail_user({where_, place.empty() ? "the file" : place, why, ""});
  }

 private:
  const nlohmann::json& at(const char* key) const {
    if (!json_.contains(key)) fail(place(key), "is missing");
    return json_.at(key);
  }
  static std::string shown(const nlohmann::json& value) {
    constexpr size_t kQuoted = 40;
    const std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    return text.size() > kQuoted ? text.substr(0, kQuoted) + "..." : text;
  }

  const nlohmann::json& json_;
  const std::string& where_;
  std::string path_;
};

void check_edges(const PlacementProblem& problem, const std::string& where) {
  for (size_t v = 0; v < problem.nodes.size(); ++v)
    for (int next : problem.edges.successors[v])
      if (problem.nodes[v].backward && !problem.nodes[size_t(next)].backward)
        fail_user({where, fmt::format("edge {} -> {}", problem.nodes[v].name, problem.nodes[size_t(next)].name),
                   "leads from a backward node to a forward one", "the backward pass comes last"});
  const std::vector<int> cycle = find_cycle(problem.edges);
  if (cycle.empty()) return;
  std::vector<std::string> names;
  for (int v : cycle) names.push_back(problem.nodes[size_t(v)].name);
  names.push_back(names.front());
  fail_user(
      {where, join(names, " -> "), "is a cycle", "a graph of operators must be acyclic: remove one of these edges"});
}

}  // namespace

PlacementProblem parse_placement(const nlohmann::json& json, const std::string& where) {
  const ObjectReader file(json, where, "");
  PlacementProblem problem;
  problem.memory = file.number("maxSizePerFPGA");
  problem.accelerators = file.whole("maxFPGAs", 0, kMostDevices);
  problem.cpus = file.whole("maxCPUs", 0, kMostDevices);
  std::unordered_map<int, int> by_id;
  for (const nlohmann::json& entry : file.array("nodes")) {
    const ObjectReader node(entry, where, fmt::format("nodes[{}]", problem.nodes.size()));
    const int id = node.whole("id");
    if (!by_id.emplace(id, int(problem.nodes.size())).second)
      node.fail(node.place("id"), fmt::format("there are two nodes {}", id));
    PlacementNode read;
    read.id = id;
    read.name =
        node.has("name") && entry.at("name").is_string() ? entry.at("name").get<std::string>() : std::to_string(id);
    read.on_accelerator = node.truth("supportedOnFpga");
    read.backward = node.truth("isBackwardNode");
    read.cpu = node.number("cpuLatency");
    read.accelerator = node.number("fpgaLatency");
    if (node.has("size")) read.bytes = node.number("size");
    if (node.has("colorClass")) read.color = node.whole("colorClass");
    problem.nodes.push_back(std::move(read));
  }
  if (problem.nodes.empty()) file.fail("nodes", "is empty");
  std::vector<std::pair<int, int>> edges;
  std::vector<char> has_cost(problem.nodes.size(), 0);
  for (const nlohmann::json& entry : file.array("edges")) {
    const ObjectReader edge(entry, where, fmt::format("edges[{}]", edges.size()));
    const auto end = [&](const char* key) {
      const auto found = by_id.find(edge.whole(key));
      if (found == by_id.end()) edge.fail(edge.place(key), fmt::format("there is no node {}", edge.whole(key)));
      return found->second;
    };
    const int from = end("sourceId"), to = end("destId");
    PlacementNode& source = problem.nodes[size_t(from)];
    const double cost = edge.number("cost");
    if (has_cost[size_t(from)] && std::abs(source.send - cost) > kSameCost)
      edge.fail(edge.place("cost"), fmt::format("is {}, another edge of node {} costs {}: a node's output has one cost",
                                                cost, source.name, source.send));
    if (!has_cost[size_t(from)]) source.send = cost;
    has_cost[size_t(from)] = 1;
    edges.push_back({from, to});
  }
  problem.edges = make_dag(int(problem.nodes.size()), edges);
  check_edges(problem, where);
  return problem;
}

PlacementProblem read_placement(const std::filesystem::path& file) {
  return parse_placement(read_json_file(file), file.string());
}

PlacementProblem training_placement(const LayerGraph& profile, int accelerators, double memory, double bandwidth) {
  PlacementProblem problem;
  problem.accelerators = accelerators;
  problem.memory = memory;
  const int count = int(profile.layers.size());
  std::vector<std::pair<int, int>> edges;
  for (bool backward : {false, true}) {
    for (int v = 0; v < count; ++v) {
      const LayerProfile& layer = profile.layers[size_t(v)];
      PlacementNode node;
      node.id = int(problem.nodes.size());
      node.name = layer.name + (backward ? "grad" : "");
      node.backward = backward;
      node.accelerator = backward ? layer.backward : layer.forward;
      node.bytes = layer.activation_bytes + layer.parameter_bytes;
      node.send = layer.activation_bytes / bandwidth;
      node.color = v;
      problem.nodes.push_back(std::move(node));
      for (int next : profile.edges.successors[size_t(v)]) {
        if (backward) edges.push_back({count + next, count + v});
        else edges.push_back({v, next});
      }
    }
  }
  problem.edges = make_dag(2 * count, edges);
  return problem;
}

}  // namespace trireme
