// `trireme plan graph FILE`: plans a graph file in a published cost model.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json_file.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/plan_command.h"
#include "planner/graph_files/latency.h"
#include "planner/graph_files/max_load.h"
#include "planner/graph_files/pipedream.h"
#include "trireme/error.h"

namespace trireme {
namespace {

const std::string kPipeDream = "pipedream", kMaxLoad = "max-load", kLatency = "latency";
constexpr double kLatencyLimit = 60;   // seconds; the integer program may run without end
constexpr double kLeastBandwidth = 1;  // bytes per second; far below this, transfer times overflow
constexpr double kClosedGap = 1e-9;    // relative to the objective: differences that the order of summation explains
constexpr size_t kNodesShown = 4;

/// A plan with the names of its nodes.
struct NamedPlan {
  GraphPlan plan;
  nlohmann::json nodes;  ///< for each node its name (profiles) or id (JSON files)
  int devices = 0;
  std::string unit;
};

void check_cost(const PlanGraphOptions& options) {
  const std::vector<std::string> known = graph_cost_models();
  if (std::find(known.begin(), known.end(), options.cost) == known.end()) {
    const std::string near = closest_match(options.cost, known);
    fail_user({"--cost", "\"" + options.cost + "\"", "is not known",
               near.empty() ? fmt::format("known are {}", join(known)) : fmt::format("did you mean \"{}\"?", near)});
  }
  if (options.straight && options.cost != kPipeDream)
    fail_user({"--straight", "", fmt::format("--cost {} has no replicated stages", options.cost), "leave it out"});
}

double positive(double value, const std::string& text, const char* flag) {
  if (!(value > 0)) fail_user({flag, "\"" + text + "\"", "must be more than 0", "give a positive value"});
  if (!std::isfinite(value)) fail_user({flag, "\"" + text + "\"", "is too large", "give a smaller value"});
  return value;
}

double bandwidth(const PlanGraphOptions& options) {
  if (options.bandwidth.empty())
    fail_user({"--bandwidth", "", fmt::format("is needed with --cost {} and a profile", options.cost),
               "for example --bandwidth \"1 GB/s\""});
  const double value = positive(parse_bandwidth(options.bandwidth, "--bandwidth"), options.bandwidth, "--bandwidth");
  if (value < kLeastBandwidth)
    fail_user({"--bandwidth", "\"" + options.bandwidth + "\"", "is less than 1 B/s", "give 1 B/s or more"});
  return value;
}

int devices(const PlanGraphOptions& options) {
  if (options.devices.empty())
    fail_user({"--devices", "", fmt::format("is needed with --cost {} and a profile", options.cost),
               "for example --devices 8"});
  return options.devices.front();
}

std::optional<double> memory(const PlanGraphOptions& options) {
  if (options.memory.empty()) return std::nullopt;
  return positive(double(parse_bytes(options.memory, "--memory")), options.memory, "--memory");
}

Deadline deadline(const PlanGraphOptions& options) {
  if (!options.time_limit.empty()) return Deadline(parse_time_limit(options.time_limit, "--time-limit"));
  return Deadline(options.cost == kLatency ? std::optional(kLatencyLimit) : std::nullopt);
}

/// A file that was cut between two lines still reads as a graph, but with layers that have no edges.
void warn_of_lone_layers(const LayerGraph& profile, const PlanGraphOptions& options) {
  std::vector<std::string> lone;
  for (size_t v = 0; v < profile.layers.size(); ++v)
    if (profile.edges.successors[v].empty() && profile.edges.predecessors[v].empty())
      lone.push_back(profile.layers[v].name);
  if (lone.empty() || profile.layers.size() == 1) return;
  spdlog::warn("{}: {} of {} layers have no edge, for example {}: is the file complete?", options.graph.string(),
               lone.size(), profile.layers.size(), lone.front());
}

bool is_json(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != text.npos && (text[first] == '{' || text[first] == '[');
}

/// For each stage, PipeDream's memory check counts the mini-batches in flight by the number of devices after the stage.
/// So for the last stage it counts none, whatever memory that stage needs.
void warn_of_uncounted_memory(const LayerGraph& profile, const GraphPlan& plan, const std::optional<double>& limit) {
  if (!limit || plan.stages.empty()) return;
  double bytes = 0;
  for (const int v : plan.stages.back().nodes)
    bytes += profile.layers[size_t(v)].parameter_bytes + profile.layers[size_t(v)].activation_bytes;
  if (bytes > *limit)
    spdlog::warn(
        "the last stage holds {} for one mini-batch, more than --memory: PipeDream's check does not count the last "
        "stage",
        format_bytes(int64_t(bytes)));
}

NamedPlan plan_profile(const PlanGraphOptions& options, const std::string& text) {
  const LayerGraph profile = parse_layer_graph(text, options.graph.string());
  warn_of_lone_layers(profile, options);
  NamedPlan named{{}, nlohmann::json::array(), devices(options), "s"};
  if (options.cost == kPipeDream) {
    for (const LayerProfile& layer : profile.layers) named.nodes.push_back(layer.name);
    named.plan = plan_pipedream(profile, {named.devices, bandwidth(options), options.straight, memory(options)},
                                deadline(options));
    warn_of_uncounted_memory(profile, named.plan, memory(options));
    return named;
  }
  if (options.cost == kLatency)
    fail_user({options.graph.string(), "a training profile",
               "--cost latency is for inference on the devices of a JSON file", "see docs/planner.md"});
  const double limit = memory(options).value_or(std::numeric_limits<double>::infinity());
  const PlacementProblem problem = training_placement(profile, named.devices, limit, bandwidth(options));
  for (const PlacementNode& node : problem.nodes) named.nodes.push_back(node.name);
  named.plan = plan_max_load(problem, options.graph.string(), deadline(options));
  return named;
}

NamedPlan plan_placement(const PlanGraphOptions& options) {
  const std::string file = options.graph.string();
  if (options.cost == kPipeDream)
    fail_user({file, "JSON", "--cost pipedream needs a profile with weights and activations of layers",
               "use --cost max-load or latency"});
  if (!options.bandwidth.empty())
    fail_user({"--bandwidth", options.bandwidth, fmt::format("{} already contains the times of transfers", file),
               "leave it out"});
  PlacementProblem problem = read_placement(file);
  if (!options.devices.empty()) problem.accelerators = options.devices.front();
  if (const auto limit = memory(options)) problem.memory = *limit;
  NamedPlan named{{}, nlohmann::json::array(), problem.accelerators + problem.cpus, ""};
  for (const PlacementNode& node : problem.nodes) named.nodes.push_back(node.id);
  named.plan = options.cost == kMaxLoad ? plan_max_load(problem, file, deadline(options))
                                        : plan_latency(problem, file, deadline(options));
  return named;
}

/// Returns how far below the objective the optimum may lie, relative to the objective.
double gap(const GraphPlan& plan) {
  return plan.objective > 0 ? (plan.objective - plan.lower_bound) / plan.objective : 0;
}

bool is_optimal(const GraphPlan& plan) { return gap(plan) <= kClosedGap; }

nlohmann::json to_json(const NamedPlan& named, const PlanGraphOptions& options, double seconds) {
  const GraphPlan& plan = named.plan;
  nlohmann::json stages = nlohmann::json::array();
  for (const GraphStage& stage : plan.stages) {
    nlohmann::json nodes = nlohmann::json::array();
    for (int v : stage.nodes) nodes.push_back(named.nodes[size_t(v)]);
    stages.push_back({{"nodes", nodes},
                      {"device", stage.device},
                      {"replicas", stage.replicas},
                      {"seconds", stage.compute},
                      {"load", stage.load}});
  }
  return {{"graph", options.graph.string()},
          {"cost", options.cost},
          {"devices", named.devices},
          {"status", is_optimal(plan) ? "optimal" : "feasible"},
          {"objective", plan.objective},
          {"lower_bound", plan.lower_bound},
          {"gap", gap(plan)},
          {"proof", plan.proof},
          {"order_ideals", plan.states},
          {"unit", named.unit.empty() ? "the file's" : named.unit},
          {"stages", stages},
          {"seconds", seconds}};
}

std::string in_words(const NamedPlan& named, const PlanGraphOptions& options, double seconds) {
  const GraphPlan& plan = named.plan;
  const std::string unit = named.unit.empty() ? "" : " " + named.unit;
  std::string text =
      fmt::format("{}: {} {:.6g}{}, ", options.graph.filename().string(), options.cost, plan.objective, unit);
  text += is_optimal(plan) ? "optimal"
                           : fmt::format("at most {:.2f} % above the optimum", 100 * gap(plan) / (1 - gap(plan)));
  text += fmt::format(" ({}; found in {})\n", plan.proof, format_seconds(seconds));
  for (const GraphStage& stage : plan.stages) {
    std::vector<std::string> names;
    for (size_t i = 0; i < std::min(stage.nodes.size(), kNodesShown); ++i) {
      const nlohmann::json& name = named.nodes[size_t(stage.nodes[i])];
      names.push_back(name.is_string() ? name.get<std::string>() : name.dump());
    }
    if (stage.nodes.size() > kNodesShown) names.push_back(fmt::format("... ({})", stage.nodes.size()));
    text += fmt::format("  {:>11} x {:<3} compute {:<10.6g} load {:<10.6g} {}\n", stage.device, stage.replicas,
                        stage.compute, stage.load, join(names));
  }
  return text;
}

}  // namespace

std::vector<std::string> graph_cost_models() { return {kPipeDream, kMaxLoad, kLatency}; }

void add_plan_graph(CLI::App& plan, PlanGraphOptions& o) {
  auto* verb =
      plan.add_subcommand("graph", "find the best plan of a graph file in a published cost model (docs/planner.md)");
  verb->add_option("graph", o.graph, "PipeDream's profile, or dnn-partitioning's JSON")->required();
  verb->add_option("--devices", o.devices, "number of devices")->check(whole_number(1, kMaxPlanDevices))->expected(1);
  verb->add_option("--cost", o.cost, "pipedream, max-load or latency")->capture_default_str();
  verb->add_option("--bandwidth", o.bandwidth, "bandwidth of each device's link, for example \"1 GB/s\"");
  verb->add_flag("--straight", o.straight, "do not replicate stages");
  verb->add_option("--memory", o.memory,
                   "memory of each device, for example \"16 GiB\" (default: the file's, or no limit)");
  verb->add_option("--time-limit", o.time_limit,
                   "end the search after this time, \"60 s\", and print the gap to the optimum");
  verb->add_option("--json", o.json,
                   "also write the result to this file as JSON; -: to standard output, without other text");
}

int run_plan_graph(const PlanGraphOptions& options) {
  check_cost(options);
  if (options.json != "-") check_target("--json", options.json);
  const auto start = Deadline::Clock::now();
  const std::string text = read_file(options.graph);
  const NamedPlan named = is_json(text) ? plan_placement(options) : plan_profile(options, text);
  const double seconds = std::chrono::duration<double>(Deadline::Clock::now() - start).count();
  const nlohmann::json json = to_json(named, options, seconds);
  if (options.json == "-") {
    std::cout << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
    return 0;
  }
  if (!options.json.empty()) write_json_file(options.json, json);
  std::cout << in_words(named, options, seconds);
  return 0;
}

}  // namespace trireme
