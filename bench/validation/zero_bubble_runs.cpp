#include "validation/zero_bubble_runs.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "schedule/fill_gaps.h"
#include "validation/shape_layer.h"
#include "validation/simulated.h"

namespace trireme::validation {
namespace {

constexpr double kMillisecond = 1e-3, kLastDigit = 1e-4;
constexpr int kTwoSteps = 2;  // the second shows the time from step to step
constexpr int64_t kSequence = 1024;

/// Every stage takes the same seconds, per sample.
class StageCosts final : public LayerCosts {
 public:
  StageCosts(const StageSeconds& worker, int chunks, NodeId loss) : worker_(worker), chunks_(chunks), loss_(loss) {}

  LayerCost seconds(NodeId node, const ShardingOption&, int, int64_t samples, int) const override {
    const double share = node == loss_ ? 0 : double(samples) / chunks_;
    LayerCost cost;
    cost.forward = worker_.forward * share;
    cost.backward_input = worker_.backward_input * share;
    cost.backward_weight = worker_.backward_weight * share;
    cost.backward = cost.backward_input + cost.backward_weight;
    return cost;
  }
  LayerMemory memory(NodeId, const ShardingOption&, int, int64_t) const override { return {}; }
  double update_seconds(int64_t, int, int) const override { return 0; }

 private:
  const StageSeconds worker_;
  const int chunks_;
  const NodeId loss_;
};

/// A chain of this many equal layers, each a block of its own, and a loss.
Model chain_of(int stages) {
  ModelBuilder builder("chain");
  NodeId node = builder.input("data", {1});
  const NodeId target = builder.input("target", {1});
  for (int stage = 0; stage < stages; ++stage)
    node = builder.layer<ShapeLayer>({node}, fmt::format("stage.{}", stage),
                                     ShapeLayer::Facts{.output = {1}, .parameters = {{1}}, .splits_backward = true});
  return builder.finish(node, builder.layer<ShapeLayer>({node, target}, "loss", ShapeLayer::Facts{.output = {}}));
}

/// Devices whose messages take this long and occupy nothing.
Cluster line_of(int devices, double message) {
  Cluster cluster = Cluster::uniform(devices);
  cluster.nodes.push_back({.link = {.latency = message}});
  cluster.kinds.emplace_back();
  for (Device& device : cluster.devices) device.kind = 0;
  return cluster;
}

/// Seconds from step to step.
double pipeline_seconds(const PipelineRun& run, const std::string& schedule, int chunks) {
  const StageSeconds& ms = run.milliseconds;
  const StageSeconds worker{ms.forward * kMillisecond, ms.backward_input * kMillisecond,
                            ms.backward_weight * kMillisecond, ms.message * kMillisecond};
  const Model model = chain_of(run.depth * chunks);
  const Cluster cluster = line_of(run.depth, worker.message);
  const StageCosts costs(worker, chunks, model.loss());
  const Setting setting{
      .model = model, .cluster = cluster, .batch = run.micro_batches, .layers = &costs, .steps = kTwoSteps};
  const Degrees degrees{.pipeline = run.depth, .micro_batches = run.micro_batches, .chunks = chunks};
  return step_seconds(setting, block_plan(setting, degrees, schedule));
}

double bubble_of(const PipelineRun& run, double seconds) {
  return 1 - run.micro_batches * run.milliseconds.all() * kMillisecond / seconds;
}

/// The times of the run for which the schedule below is searched. The simulations run one after the other.
FillTimes& searched_times() {
  static FillTimes times;
  return times;
}

const char* const kSearched = "zero-bubble-searched";
[[maybe_unused]] const bool searched_is_known =
    register_schedule({.name = kSearched,
                       .description = "the search of ZB-1p and ZB-2p with published times",
                       .splits_backward = true,
                       .tasks = [](const PipelinePlace& place) {
                         std::vector<Task> tasks = fill_gaps(place, searched_times());
                         tasks.push_back({TaskKind::update, 0, -1});
                         return tasks;
                       }});

/// The bubble of ZB-1p (limit 1) or ZB-2p (limit 2), by the authors' memory of a layer: 34 h + 5 a s bytes per word
/// until B, 32 h of them until W.
double searched_bubble(const PipelineRun& run, int limit) {
  const auto micro = [](double milliseconds) { return int64_t(std::lround(milliseconds / kMillisecond)); };
  const StageSeconds& ms = run.milliseconds;
  const int64_t whole = 34 * run.sizes.width + 5 * run.sizes.heads * kSequence;
  searched_times() = {.forward = micro(ms.forward),
                      .backward_input = micro(ms.backward_input),
                      .backward_weight = micro(ms.backward_weight),
                      .message = micro(ms.message),
                      .whole = whole,
                      .kept = 32 * run.sizes.width,
                      .most = int64_t{limit} * run.depth * whole};
  return bubble_of(run, pipeline_seconds(run, kSearched, 1));
}

Bubbles bubbles_of(const PipelineRun& run) {
  const auto bubble = [&](const char* schedule, int chunks = 1) {
    return bubble_of(run, pipeline_seconds(run, schedule, chunks));
  };
  return {.plain = bubble("1f1b"),
          .interleaved = bubble("interleaved", run.chunks),
          .h1 = bubble("zero-bubble"),
          .h2 = bubble("zero-bubble-h2")};
}

/// The bubble of 1F1B-I as the authors compute it: from the last worker to the first, and back, only the first
/// micro-batch of each group of p waits for its input.
double bubble_without_seam(const PipelineRun& run) {
  const int p = run.depth, v = run.chunks;
  const StageSeconds& ms = run.milliseconds;
  const Schedule& schedule = *look_up_schedule("interleaved");
  std::vector<std::vector<Task>> lists;
  lists.reserve(size_t(p));
  for (int s = 0; s < p; ++s) lists.push_back(schedule.tasks({s, p, v, run.micro_batches}));
  std::map<std::tuple<bool, int, int>, double> ends;  // forward, stage, micro-batch
  std::vector<double> now(size_t(p), 0);
  std::vector<size_t> next(size_t(p), 0);
  const auto do_next = [&](int s) {
    const Task& task = lists[size_t(s)][next[size_t(s)]];
    if (task.kind == TaskKind::update) return false;
    const bool forward = task.kind == TaskKind::forward;
    const int stage = task.chunk * p + s, before = forward ? stage - 1 : stage + 1;
    const bool is_seam = s == (forward ? 0 : p - 1);
    double begin = now[size_t(s)];
    if (before >= 0 && before < v * p && !(is_seam && task.micro_batch % p > 0)) {
      const auto input = ends.find({forward, before, task.micro_batch});
      if (input == ends.end()) return false;
      begin = std::max(begin, input->second + ms.message);
    }
    now[size_t(s)] = begin + (forward ? ms.forward : ms.backward_input + ms.backward_weight) / v;
    ends[{forward, stage, task.micro_batch}] = now[size_t(s)];
    ++next[size_t(s)];
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (int s = 0; s < p; ++s)
      while (do_next(s)) moved = true;
  }
  return bubble_of(run, *std::max_element(now.begin(), now.end()) * kMillisecond);
}

}  // namespace

bool seam_explains(const std::vector<PipelineRun>& runs) {
  return std::all_of(runs.begin(), runs.end(), [](const PipelineRun& run) {
    return std::abs(bubble_without_seam(run) - run.published.interleaved) < kLastDigit;
  });
}

const std::vector<PipelineRun>& profiled_runs() {
  static const std::vector<PipelineRun> runs{
      {"1.5B", 8, 24, 3, {18.522, 18.086, 9.337, 0.601}, {0.2431, 0.1055, 0.1585, 0.1083, 0.1585, 0.0433}, {2304, 24}},
      {"1.5B", 8, 32, 3, {18.513, 18.086, 9.331, 0.626}, {0.1985, 0.0818, 0.1242, 0.0837, 0.1242, 0.0039}, {2304, 24}},
      {"1.5B", 8, 64, 3, {18.546, 18.097, 9.321, 0.762}, {0.1240, 0.0443, 0.0674, 0.0444, 0.0674, 0.0026}, {2304, 24}},
      {"6.2B", 8, 24, 4, {29.718, 29.444, 19.927, 0.527}, {0.2347, 0.0808, 0.1323, 0.0698, 0.1323, 0.0029}, {4096, 32}},
      {"6.2B", 8, 32, 4, {29.802, 29.428, 19.530, 0.577}, {0.1898, 0.0628, 0.1045, 0.0559, 0.1045, 0.0022}, {4096, 32}},
      {"6.2B", 8, 64, 4, {29.935, 29.621, 19.388, 0.535}, {0.1091, 0.0320, 0.0554, 0.0294, 0.0554, 0.0010}, {4096, 32}},
      {"14.6B",
       16,
       48,
       3,
       {11.347, 11.248, 8.132, 0.377},
       {0.2552, 0.1104, 0.1397, 0.0672, 0.1397, 0.0066},
       {5120, 40}},
      {"14.6B",
       16,
       64,
       3,
       {11.307, 11.254, 8.101, 0.379},
       {0.2082, 0.0852, 0.1088, 0.0516, 0.1088, 0.0054},
       {5120, 40}},
      {"14.6B",
       16,
       128,
       3,
       {11.325, 11.308, 8.109, 0.378},
       {0.1251, 0.0445, 0.0576, 0.0266, 0.0576, 0.0028},
       {5120, 40}},
      {"28.3B",
       32,
       96,
       2,
       {10.419, 10.207, 7.715, 0.408},
       {0.2646, 0.1493, 0.1421, 0.0641, 0.1421, 0.0038},
       {6144, 48}},
      {"28.3B",
       32,
       128,
       2,
       {10.408, 10.204, 7.703, 0.408},
       {0.2168, 0.1164, 0.1106, 0.0490, 0.1106, 0.0029},
       {6144, 48}},
      {"28.3B",
       32,
       256,
       2,
       {10.402, 10.248, 7.698, 0.460},
       {0.1352, 0.0624, 0.0594, 0.0257, 0.0594, 0.0018},
       {6144, 48}}};
  return runs;
}

const std::vector<Bubbles>& profiled_bubbles() {
  static const std::vector<Bubbles> bubbles = [] {
    std::vector<Bubbles> all;
    for (const PipelineRun& run : profiled_runs()) {
      all.push_back(bubbles_of(run));
      all.back().one_p = searched_bubble(run, 1);
      all.back().two_p = searched_bubble(run, 2);
    }
    return all;
  }();
  return bubbles;
}

const std::vector<double>& fixed_bubbles() {
  static const std::vector<double> bubbles = [] {
    std::vector<double> all;
    for (const PipelineRun& run : profiled_runs())
      all.push_back(bubble_of(run, pipeline_seconds(run, "zero-bubble-2p", 1)));
    return all;
  }();
  return bubbles;
}

const std::vector<PipelineRun>& larger_runs() {
  static const std::vector<PipelineRun> runs{
      {"6.2B", 16, 48, 2, {28.814, 28.760, 19.352, 1.610}, {0.2668, 0.1499, 0.1536, 0.0823, 0, 0, 0.0697}},
      {"6.2B", 16, 64, 2, {28.824, 28.786, 19.376, 1.621}, {0.2206, 0.1169, 0.1198, 0.0630, 0, 0, 0.0533}},
      {"6.2B", 16, 128, 2, {28.632, 28.612, 19.278, 1.619}, {0.1390, 0.0621, 0.0637, 0.0325, 0, 0, 0.0274}},
      {"14.6B", 24, 72, 2, {13.526, 13.938, 10.502, 0.755}, {0.2699, 0.1519, 0.1439, 0.0628, 0, 0, 0.0638}},
      {"14.6B", 24, 96, 2, {13.566, 13.968, 10.518, 0.758}, {0.2229, 0.1184, 0.1121, 0.0480, 0, 0, 0.0483}},
      {"14.6B", 24, 192, 2, {13.570, 13.980, 10.520, 0.770}, {0.1403, 0.0630, 0.0595, 0.0247, 0, 0, 0.0250}},
      {"28.3B", 32, 96, 2, {18.916, 19.496, 14.576, 0.879}, {0.2676, 0.1509, 0.1429, 0.0629, 0, 0, 0.0593}},
      {"28.3B", 32, 128, 2, {18.938, 19.488, 14.612, 0.892}, {0.2204, 0.1177, 0.1111, 0.0478, 0, 0, 0.0451}},
      {"28.3B", 32, 256, 2, {18.894, 19.288, 14.386, 0.887}, {0.1362, 0.0626, 0.0593, 0.0251, 0, 0, 0.0236}}};
  return runs;
}

const std::vector<Bubbles>& larger_bubbles() {
  static const std::vector<Bubbles> bubbles = [] {
    std::vector<Bubbles> all;
    for (const PipelineRun& run : larger_runs()) {
      all.push_back(bubbles_of(run));
      all.back().v = bubble_of(run, pipeline_seconds(run, "zero-bubble-v", 2));
    }
    return all;
  }();
  return bubbles;
}

}  // namespace trireme::validation
