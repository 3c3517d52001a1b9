// Times of the exact planner by layers and devices.
//
// plan_growth [--series resnet,layers,devices,large] [--memory GIB] [--gap SHARE] [--time-limit SECONDS] [--svg FILE]:
// searches for the fastest plan of
//   resnet: ResNet-50 (batch 256) on 1 to 8 devices;
//   layers: GPT-2 with 12 to 96 layers of width 1536 (batch 512) on 64 devices;
//   devices: GPT-2 with 24 layers of that width on 4 to 1024 devices (without 16, which takes by far the longest: the
//   largest number on which stages may differ in size);
//   large: GPT-2 with 96 layers of width 12288 (batch 1024, 175 billion parameters) on 256 to 1024 devices;
//   tight: the same on 64 devices, whose memory it nearly fills (runs only if named).
// Nodes have 8 devices. Layers cost the time of their FLOPs and bytes on a device of 100 TFLOP/s and 1 TB/s, plus 5 us
// per call; links have 200 GB/s in a node and 50 GB/s between nodes. Prints a line per search: nodes of the model,
// devices, processor seconds of searching, configurations asked for, configurations examined, labels, predicted
// seconds, gap, the plan. --svg draws the seconds over layers and over devices.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json_file.h"
#include "chart.h"
#include "planner/exact/find_plan.h"
#include "zoo/zoo.h"

namespace {

using namespace trireme;

constexpr size_t kShown = 100;  // characters of a plan in words
constexpr double kFlops = 100e12, kBytesPerSecond = 1e12, kLaunch = 5e-6;

/// A roofline with a fixed cost per call.
class RooflineCosts : public LayerCosts {
 public:
  explicit RooflineCosts(const Model& model) : model_(model) {}

  LayerCost seconds(NodeId node, const ShardingOption& option, int tensor, int64_t samples, int) const override {
    const double share = double(samples) / (option.divides_work ? tensor : 1);
    const double flops = model_.node(node).layer->forward_flops(model_.input_shapes(node)) * share;
    const double bytes = 2 * bytes_of(node, option, tensor, samples);
    const double once = kLaunch + std::max(flops / kFlops, bytes / kBytesPerSecond);
    return {.forward = once,
            .backward = 2 * once,
            .backward_input = once,
            .backward_weight = once,
            .basis = Basis::datasheet};
  }
  LayerMemory memory(NodeId node, const ShardingOption& option, int tensor, int64_t samples) const override {
    LayerMemory memory;
    memory.output = int64_t(bytes_of(node, option, tensor, samples));
    memory.keeps_input.assign(model_.node(node).inputs.size(), !model_.node(node).layer->parameters().empty());
    memory.input_gradients.assign(model_.node(node).inputs.size(), memory.output);
    memory.forward_workspace = memory.backward_workspace = memory.output;
    return memory;
  }
  double update_seconds(int64_t elements, int, int) const override {
    return kLaunch + 16 * double(elements) / kBytesPerSecond;
  }

 private:
  double bytes_of(NodeId node, const ShardingOption& option, int tensor, int64_t samples) const {
    return 4.0 * double(element_count(model_.node(node).sample_shape)) * double(samples) /
           (option.output.is_shard() ? tensor : 1);
  }
  const Model& model_;
};

Cluster make_cluster(int devices, double gib) {
  Cluster cluster = Cluster::uniform(devices, int64_t(gib * (1 << 30)));
  for (int i = 0; i < devices; ++i) cluster.devices[size_t(i)].node = i / 8;
  cluster.nodes.assign(size_t((devices + 7) / 8), ClusterNode{{200e9, 5e-6, false}, 0, ""});
  cluster.network = {50e9, 10e-6, false};
  return cluster;
}

struct Options {
  std::vector<std::string> series{"resnet", "layers", "devices", "large"};
  double gib = 80, gap = 0;
  std::optional<double> limit;
  std::string svg;
};

struct Case {
  std::string series;
  Model model;
  int devices = 1;
  int64_t batch = 1;
  int blocks = 0;  ///< of GPT-2
};

/// Runs a search; returns its processor seconds.
double search(const Case& c, const Options& o) {
  const Cluster cluster = make_cluster(c.devices, o.gib);
  const RooflineCosts costs(c.model);
  PlanRequest request{.model = c.model, .cluster = cluster, .costs = costs, .batch = c.batch};
  request.optimizer_tensors = 2;
  request.tolerance = o.gap;
  request.time_limit = o.limit;
  request.space.shardings.push_back(OptimizerSharding::zero1);
  const std::clock_t start = std::clock();
  const PlanAnswer answer = find_plan(request);
  const double seconds = double(std::clock() - start) / CLOCKS_PER_SEC;
  fmt::print("{:<9} {:>6} {:>7} {:>9.3f} {:>6} {:>6} {:>9} {:>10.4f} {:>8.2g} {}\n", c.series, c.model.nodes().size(),
             c.devices, seconds, answer.configurations, answer.searched_configurations, answer.labels,
             answer.best ? answer.best->prediction.seconds : 0.0, answer.gap(),
             (answer.best ? answer.best->plan.in_short(c.model) : answer.proof).substr(0, kShown));
  std::fflush(stdout);
  return seconds;
}

Model gpt2(int layers, int width) {
  return make_model({"gpt2",
                     {2048},
                     51200,
                     {{"layers", double(layers)},
                      {"width", double(width)},
                      {"heads", double(width) / 128},
                      {"positions", 2048},
                      {"probability", 0}},
                     LearningTask::language,
                     {2048},
                     51200});
}

std::vector<Case> cases_of(const std::string& series) {
  constexpr int kSmall = 1536, kLarge = 12288, kLargeBlocks = 96;
  std::vector<Case> cases;
  if (series == "resnet")
    for (const int devices : {1, 2, 4, 8})
      cases.push_back({series, make_model({"resnet50", {3, 224, 224}, 1000, {}}), devices, 256});
  if (series == "layers")
    for (const int blocks : {12, 24, 48, 96}) cases.push_back({series, gpt2(blocks, kSmall), 64, 512, blocks});
  if (series == "devices")
    for (const int devices : {4, 8, 32, 64, 128, 256, 512, 1024})
      cases.push_back({series, gpt2(24, kSmall), devices, 1024, 24});
  if (series == "large")
    for (const int devices : {256, 512, 1024})
      cases.push_back({series, gpt2(kLargeBlocks, kLarge), devices, 1024, kLargeBlocks});
  if (series == "tight") cases.push_back({series, gpt2(kLargeBlocks, kLarge), 64, 1024, kLargeBlocks});
  return cases;
}

void run(const Options& o) {
  constexpr double kLeastShown = 1e-4;  // seconds
  const std::map<std::string, std::string> names{{"resnet", "ResNet-50"},
                                                 {"devices", "GPT-2, 24 layers"},
                                                 {"large", "GPT-2, 175 billion"},
                                                 {"tight", "the same, tight"}};
  ChartPanel over_layers{"processor seconds of the exact planner, GPT-2 on 64 devices", "layers (transformer blocks)",
                         true};
  ChartPanel over_devices{"the same, against devices", "devices", true};
  fmt::print("{:<9} {:>6} {:>7} {:>9} {:>6} {:>6} {:>9} {:>10} {:>8} plan\n", "series", "nodes", "devices", "search s",
             "asked", "looked", "labels", "step s", "gap");
  for (const std::string& series : o.series) {
    ChartPanel::Line line{names.contains(series) ? names.at(series) : ""};
    for (const Case& c : cases_of(series))
      line.points.emplace_back(series == "layers" ? c.blocks : c.devices, std::max(kLeastShown, search(c, o)));
    (series == "layers" ? over_layers : over_devices).lines.push_back(std::move(line));
  }
  std::vector<ChartPanel> panels;
  for (ChartPanel* panel : {&over_layers, &over_devices})
    if (!panel->lines.empty()) panels.push_back(std::move(*panel));
  if (!o.svg.empty()) write_file_atomically(o.svg, svg_chart(panels));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Processor seconds of the exact planner, by layers and devices."};
  Options o;
  app.add_option("--series", o.series, "what to search: resnet, layers, devices, large, tight")
      ->delimiter(',')
      ->check(CLI::IsMember({"resnet", "layers", "devices", "large", "tight"}))
      ->capture_default_str();
  app.add_option("--memory", o.gib, "GiB of a device")->capture_default_str();
  app.add_option("--gap", o.gap, "share: what is not better by more is not looked for")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--time-limit", o.limit, "seconds of each search (default: none)");
  app.add_option("--svg", o.svg, "draw a chart into this file");
  CLI11_PARSE(app, argc, argv);
  run(o);
}
