// How long the exact planner takes, by layers and devices.
//
// plan_growth [--memory GIB] [--tolerance SHARE] [--only resnet|layers|devices] [--least DEVICES] [--most DEVICES]: the fastest plan of
// ResNet-50 (batch 256) on 1 to 8 devices, of GPT-2 with 12 to
// 96 layers on 64 devices, and of GPT-2 with 96 layers of width 12288 (batch 1024, 175 billion parameters) on 64 to 1024 devices in nodes of 8.
// Layers cost what their FLOPs and bytes say on a device of 100 TFLOP/s and 1 TB/s with 5 us per call; links of 200 GB/s in a node, 50 GB/s
// between nodes. Prints a line per search: nodes of the model, devices, processor seconds of searching, questions asked, of these looked at,
// labels, predicted seconds, gap, the plan.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <string>

#include "planner/exact/find_plan.h"
#include "zoo/zoo.h"

namespace {

using namespace trireme;

constexpr size_t kShown = 100;  // of a plan in words
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
    return {.forward = once, .backward = 2 * once, .backward_input = once, .backward_weight = once, .basis = Basis::datasheet};
  }
  LayerMemory memory(NodeId node, const ShardingOption& option, int tensor, int64_t samples) const override {
    LayerMemory memory;
    memory.output = int64_t(bytes_of(node, option, tensor, samples));
    memory.keeps_input.assign(model_.node(node).inputs.size(), !model_.node(node).layer->parameters().empty());
    memory.input_gradients.assign(model_.node(node).inputs.size(), memory.output);
    memory.forward_workspace = memory.backward_workspace = memory.output;
    return memory;
  }
  double update_seconds(int64_t elements, int, int) const override { return kLaunch + 16 * double(elements) / kBytesPerSecond; }

 private:
  double bytes_of(NodeId node, const ShardingOption& option, int tensor, int64_t samples) const {
    return 4.0 * double(element_count(model_.node(node).sample_shape)) * double(samples) / (option.output.is_shard() ? tensor : 1);
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

void search(const std::string& name, const Model& model, int devices, int64_t batch, double gib, double tolerance) {
  const Cluster cluster = make_cluster(devices, gib);
  const RooflineCosts costs(model);
  PlanRequest request{.model = model, .cluster = cluster, .costs = costs, .batch = batch};
  request.optimizer_tensors = 2;
  request.tolerance = tolerance;
  request.space.shardings.push_back(OptimizerSharding::zero1);
  const std::clock_t start = std::clock();
  const PlanAnswer answer = find_plan(request);
  const double seconds = double(std::clock() - start) / CLOCKS_PER_SEC;
  fmt::print("{:<12} {:>6} {:>7} {:>9.3f} {:>6} {:>6} {:>9} {:>10.4f} {:>8.2g} {}\n", name, model.nodes().size(), devices, seconds,
             answer.questions, answer.searched_questions, answer.labels, answer.best ? answer.best->prediction.seconds : 0.0, answer.gap(),
             (answer.best ? answer.best->plan.in_short(model) : answer.proof).substr(0, kShown));
  std::fflush(stdout);
}

Model gpt2(int layers, int width) {
  return make_model({"gpt2", {2048}, 51200, {{"layers", double(layers)}, {"width", double(width)}, {"heads", double(width) / 128},
                     {"positions", 2048}, {"probability", 0}}, LearningTask::language, {2048}, 51200});
}

}  // namespace

int main(int argc, char** argv) {
  double gib = 80, tolerance = 0;
  std::string only;
  int least = 1, most = 1024;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string(argv[i]) == "--memory") gib = std::atof(argv[i + 1]);
    if (std::string(argv[i]) == "--tolerance") tolerance = std::atof(argv[i + 1]);
    if (std::string(argv[i]) == "--only") only = argv[i + 1];
    if (std::string(argv[i]) == "--least") least = std::atoi(argv[i + 1]);
    if (std::string(argv[i]) == "--most") most = std::atoi(argv[i + 1]);
  }
  fmt::print("{:<12} {:>6} {:>7} {:>9} {:>6} {:>6} {:>9} {:>10} {:>8} plan\n", "model", "nodes", "devices", "search s", "asked", "looked at",
             "labels", "step s", "gap");
  if (only.empty() || only == "resnet") {
    const Model resnet = make_model({"resnet50", {3, 224, 224}, 1000, {}});
    for (const int devices : {1, 2, 4, 8}) search("resnet50", resnet, devices, 256, gib, tolerance);
  }
  if (only.empty() || only == "layers")
    for (const int layers : {12, 24, 48, 96}) search("gpt2", gpt2(layers, 1536), 64, 512, gib, tolerance);
  if (only.empty() || only == "devices")
    for (const int devices : {64, 256, 1024})
      if (devices >= least && devices <= most) search("gpt2-175b", gpt2(96, 12288), devices, 1024, gib, tolerance);
}
