// Zero-bubble pipelines: Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024 (arXiv 2401.10241).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "schedule/fill_gaps.h"
#include "validation/shape_layer.h"
#include "validation/simulated.h"
#include "validation/tables.h"

namespace trireme::validation {
namespace {

constexpr double kBubbleLimit = 0.001, kSeamLimit = 0.006;                     // differences of bubbles
constexpr double kFixedLimit = 0.003, kFewMicroBatchesLimit = 0.011;           // of the order that knows no times
constexpr double kOneLimit = 0.03, kTwoLimit = 0.06, kInterleavedLimit = 0.1;  // relative errors of speeds
constexpr double kLastDigit = 1e-4;
constexpr const char* kSeamClaim =
    "without the waits of 1F1B-I between the last worker and the first, its bubbles are the published ones within "
    "0.0001";
constexpr double kMillisecond = 1e-3;
constexpr int kTwoSteps = 2;  // the second shows the time from step to step

/// Seconds of one micro-batch through one worker's stages, and of a message between two workers.
struct StageSeconds {
  double forward, backward_input, backward_weight, message;
  double all() const { return forward + backward_input + backward_weight; }
};

/// Shares of the time: published, or predicted.
struct Bubbles {
  double plain, interleaved, h1, h2, one_p = 0, two_p = 0;
};

/// Layers' width and heads; the sequence has 1024 words (table 3).
struct Sizes {
  int64_t width, heads;
};
constexpr int64_t kSequence = 1024;

struct PipelineRun {
  const char* model;
  int depth, micro_batches, chunks;
  StageSeconds milliseconds;
  Bubbles published;
  Sizes sizes = {};
  std::string what() const { return fmt::format("{}, p = {}, m = {}", model, depth, micro_batches); }
};

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
                      .most = limit * run.depth * whole};
  return bubble_of(run, pipeline_seconds(run, kSearched, 1));
}

Bubbles bubbles_of(const PipelineRun& run) {
  const auto bubble = [&](const char* schedule, int chunks = 1) {
    return bubble_of(run, pipeline_seconds(run, schedule, chunks));
  };
  return {bubble("1f1b"), bubble("interleaved", run.chunks), bubble("zero-bubble"), bubble("zero-bubble-h2")};
}

/// The bubble of 1F1B-I as the authors compute it: from the last worker to the first, and back, only the first
/// micro-batch of each group of p waits for its input.
double bubble_without_seam(const PipelineRun& run) {
  const int p = run.depth, v = run.chunks;
  const StageSeconds& ms = run.milliseconds;
  const Schedule& schedule = *look_up_schedule("interleaved");
  std::vector<std::vector<Task>> lists;
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

bool seam_explains(const std::vector<PipelineRun>& runs) {
  return std::all_of(runs.begin(), runs.end(), [](const PipelineRun& run) {
    return std::abs(bubble_without_seam(run) - run.published.interleaved) < kLastDigit;
  });
}

/// Table 9 with the bubbles of table 5.
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

/// The predictions for profiled_runs.
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

/// The same for the schedule zero-bubble-2p.
const std::vector<double>& fixed_bubbles() {
  static const std::vector<double> bubbles = [] {
    std::vector<double> all;
    for (const PipelineRun& run : profiled_runs())
      all.push_back(bubble_of(run, pipeline_seconds(run, "zero-bubble-2p", 1)));
    return all;
  }();
  return bubbles;
}

/// Table 8, with the times of the authors' script, which are those of half a worker's layers.
const std::vector<PipelineRun>& larger_runs() {
  static const std::vector<PipelineRun> runs{
      {"6.2B", 16, 48, 2, {28.814, 28.760, 19.352, 1.610}, {0.2668, 0.1499, 0.1536, 0.0823}},
      {"6.2B", 16, 64, 2, {28.824, 28.786, 19.376, 1.621}, {0.2206, 0.1169, 0.1198, 0.0630}},
      {"6.2B", 16, 128, 2, {28.632, 28.612, 19.278, 1.619}, {0.1390, 0.0621, 0.0637, 0.0325}},
      {"14.6B", 24, 72, 2, {13.526, 13.938, 10.502, 0.755}, {0.2699, 0.1519, 0.1439, 0.0628}},
      {"14.6B", 24, 96, 2, {13.566, 13.968, 10.518, 0.758}, {0.2229, 0.1184, 0.1121, 0.0480}},
      {"14.6B", 24, 192, 2, {13.570, 13.980, 10.520, 0.770}, {0.1403, 0.0630, 0.0595, 0.0247}},
      {"28.3B", 32, 96, 2, {18.916, 19.496, 14.576, 0.879}, {0.2676, 0.1509, 0.1429, 0.0629}},
      {"28.3B", 32, 128, 2, {18.938, 19.488, 14.612, 0.892}, {0.2204, 0.1177, 0.1111, 0.0478}},
      {"28.3B", 32, 256, 2, {18.894, 19.288, 14.386, 0.887}, {0.1362, 0.0626, 0.0593, 0.0251}}};
  return runs;
}

void add_bubbles(const PipelineRun& run, const Bubbles& predicted, Table& table) {
  const auto add = [&](const char* name, double Bubbles::*part, double limit) {
    table.rows.push_back({.what = fmt::format("{}: {}", run.what(), name),
                          .published = run.published.*part,
                          .predicted = predicted.*part,
                          .limit = limit,
                          .is_share = true,
                          .note = {}});
  };
  add("1F1B", &Bubbles::plain, kBubbleLimit);
  add("1F1B-I", &Bubbles::interleaved, kSeamLimit);
  add("ZB-H1", &Bubbles::h1, kBubbleLimit);
  add("ZB-H2", &Bubbles::h2, kBubbleLimit);
  if (run.published.two_p == 0) return;
  add("ZB-1p", &Bubbles::one_p, kBubbleLimit);
  add("ZB-2p", &Bubbles::two_p, kBubbleLimit);
}

}  // namespace

Table zero_bubble_bubbles() {
  Table table{
      .title = "Zero bubble, tables 5 and 9: bubbles of schedules",
      .source = "Qi et al., ICLR 2024, up to 32 A100 on 4 nodes",
      .quantity =
          "Share of the time in which a worker is idle, 1 - m (T_F + T_B + T_W) / cost, computed by the authors",
      .setup =
          "equal stages with the times T_F, T_B, T_W of a micro-batch that table 9 gives; a message arrives T_comm "
          "later "
          "and occupies neither a worker nor a link; schedules 1f1b, interleaved (3, 4, 3 and 2 stages per worker for "
          "1.5B, 6.2B, 14.6B and 28.3B: one layer each), zero-bubble and zero-bubble-h2. For ZB-1p and ZB-2p the order "
          "is searched as for zero-bubble-2p, with the "
          "row's times and the authors' memory, within that of p and 2 p micro-batches. The cost is "
          "the time from "
          "step to step; updates take no time.",
      .calibrated = "nothing.",
      .decimals = 4,
      .rows = {},
      .claims = {},
      .remarks =
          "This charge for messages is that of the authors' program (sail-sg/zero-bubble-pipeline-parallelism, branch "
          "arxiv, efficiency.py); the paper does not print it. It reproduces 1F1B, ZB-H1 and ZB-H2 to the last digit. "
          "1F1B-I has more bubble here: between the last worker and the first, the authors' program lets only the "
          "first micro-batch of each group of p wait for its input, and the others start without theirs. A run cannot "
          "do that."};
  const std::vector<PipelineRun>& runs = profiled_runs();
  const std::vector<Bubbles>& bubbles = profiled_bubbles();
  for (size_t i = 0; i < runs.size(); ++i) add_bubbles(runs[i], bubbles[i], table);
  bool same = true;
  for (size_t i = 0; i < runs.size(); ++i)
    same = same && std::abs(bubbles[i].h1 - runs[i].published.one_p) <= kBubbleLimit;
  table.claim("zero-bubble has the published bubble of ZB-1p, within 0.001", same);
  table.claim(kSeamClaim, seam_explains(runs));
  return table;
}

Table zero_bubble_fixed() {
  Table table{
      .title = "Zero bubble, table 5: one order for all times",
      .source = "Qi et al., ICLR 2024, up to 32 A100 on 4 nodes",
      .quantity = "Share of the time in which a worker is idle, as in the table above",
      .setup =
          "as in the table above, with schedule zero-bubble-2p. Its order does not depend on times: it is searched for "
          "T_W = 0.6 T_F and without messages.",
      .calibrated = "nothing.",
      .decimals = 4,
      .rows = {},
      .claims = {},
      .remarks = "The missing times show where micro-batches are few (m = 3 p) or messages slow (28.3B)."};
  const std::vector<double>& fixed = fixed_bubbles();
  bool below = true;
  for (size_t i = 0; i < fixed.size(); ++i) {
    const PipelineRun& run = profiled_runs()[i];
    table.rows.push_back({.what = run.what() + ": ZB-2p",
                          .published = run.published.two_p,
                          .predicted = fixed[i],
                          .limit = run.micro_batches < 4 * run.depth ? kFewMicroBatchesLimit : kFixedLimit,
                          .is_share = true,
                          .note = {}});
    below = below && fixed[i] < run.published.h2;
  }
  table.claim("in every setting zero-bubble-2p has less bubble than ZB-H2", below);
  return table;
}

Table zero_bubble_larger() {
  Table table{
      .title = "Zero bubble, table 8: bubbles of schedules, larger micro-batches",
      .source = "Qi et al., arXiv 2401.10241",
      .quantity = "Share of the time in which a worker is idle, as in the table above",
      .setup =
          "as in the table above, 2 stages per worker for 1F1B-I. The paper does not print the times of these runs; "
          "they are those of the authors' program (branch arxiv, efficiency.py).",
      .calibrated = "nothing.",
      .decimals = 4,
      .rows = {},
      .claims = {},
      .remarks =
          "1F1B-I differs for the reason above. ZB-V is not here: its second stage of a worker goes back through the "
          "pipeline, and Trireme's schedules know only stages in turn."};
  for (const PipelineRun& run : larger_runs()) add_bubbles(run, bubbles_of(run), table);
  table.claim(kSeamClaim, seam_explains(larger_runs()));
  return table;
}

Table zero_bubble_speed() {
  /// Table 4: samples per second of a GPU.
  struct Measured {
    int64_t micro_batch;
    double two_p, one_p, plain, interleaved;
  };
  const std::vector<Measured> measured{
      {6, 14.5, 12.9, 11.8, 13.1}, {6, 14.8, 13.4, 12.5, 13.4}, {6, 14.9, 14.2, 13.6, 13.9},
      {3, 4.32, 3.88, 3.50, 4.01}, {3, 4.35, 4.00, 3.70, 4.08}, {3, 4.39, 4.20, 4.03, 4.19},
      {1, 1.81, 1.61, 1.40, 1.54}, {1, 1.83, 1.67, 1.49, 1.59}, {1, 1.85, 1.76, 1.64, 1.66},
      {1, 0.99, 0.87, 0.76, 0.82}, {1, 1.00, 0.90, 0.80, 0.85}, {1, 1.00, 0.96, 0.88, 0.90}};
  Table table{
      .title = "Zero bubble, table 4: measured throughput",
      .source = "Qi et al., ICLR 2024, up to 32 A100 on 4 nodes",
      .quantity = "Samples per second, relative to 1F1B",
      .setup =
          "as in the table of bubbles, from the times of table 9. ZB-1p is simulated as zero-bubble, whose bubble is "
          "the same there, ZB-2p as zero-bubble-2p.",
      .calibrated = "nothing.",
      .decimals = 3,
      .rows = {},
      .claims = {},
      .remarks =
          "1F1B-I gains less in the measured runs than its order explains. It sends more messages than the others, and "
          "here a message only arrives later. The predicted speeds in the notes are too high, because updates, and all "
          "else outside the profiled passes, take no time here."};
  const std::vector<PipelineRun>& runs = profiled_runs();
  for (size_t i = 0; i < runs.size(); ++i) {
    const PipelineRun& run = runs[i];
    const Bubbles& bubbles = profiled_bubbles()[i];
    const Measured& speeds = measured[i];
    const double busy = double(speeds.micro_batch) / (run.depth * run.milliseconds.all() * kMillisecond);
    const auto add = [&](const char* name, double speed, double bubble, double limit) {
      table.rows.push_back({.what = fmt::format("{}: {}", run.what(), name),
                            .published = speed / speeds.plain,
                            .predicted = (1 - bubble) / (1 - bubbles.plain),
                            .limit = limit,
                            .note = fmt::format("samples per second of a GPU: published {:.3g}, predicted {:.3g}",
                                                speed, busy * (1 - bubble))});
    };
    add("ZB-2p", speeds.two_p, fixed_bubbles()[i], kTwoLimit);
    add("ZB-1p", speeds.one_p, bubbles.h1, kOneLimit);
    add("1F1B-I", speeds.interleaved, bubbles.interleaved, kInterleavedLimit);
  }
  bool ordered = true;
  for (size_t i = 0; i < runs.size(); ++i)
    ordered = ordered && fixed_bubbles()[i] < profiled_bubbles()[i].h1 &&
              profiled_bubbles()[i].h1 < profiled_bubbles()[i].plain;
  table.claim("in every setting ZB-2p is faster than ZB-1p, and ZB-1p than 1F1B, as measured", ordered);
  return table;
}

}  // namespace trireme::validation
