// Megatron-LM: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", SC
// 2021.
#include <fmt/format.h>

#include "cost/datasheet_costs.h"
#include "validation/gpt_runs.h"
#include "validation/simulated.h"
#include "validation/tables.h"

namespace trireme::validation {
namespace {

constexpr const char* kMegatronSource = "Narayanan et al., SC 2021, NVIDIA Selene";
constexpr int64_t kWords = 51200, kPositions = 2048;
constexpr double kTera = 1e12, kBillion = 1e9;
constexpr double kLimit = 0.1, kZero3Limit = 0.15;
constexpr double kGiga = 1e9, kSlowestNetwork = 2e9, kLeastEfficiency = 0.2;
constexpr int kZero3Rounds = 3;
constexpr int kAdamStates = 2;

struct Run {
  double billions;  ///< of parameters, as printed
  int heads;
  int64_t width;
  int layers;
  int tensor, pipeline, gpus;
  int64_t batch;
  double teraflops;         ///< per GPU, as printed
  int64_t micro_batch = 0;  ///< samples, and chunks per GPU, as in the authors' script; 0: not known
  int chunks = 1;
};

/// Table 1: weak scaling. Micro-batches and chunks: examples/sc21/run_table_1.sh of the authors' repository.
const std::vector<Run>& weak_scaling() {
  static const std::vector<Run> runs{{1.7, 24, 2304, 24, 1, 1, 32, 512, 137, 16},
                                     {3.6, 32, 3072, 30, 2, 1, 64, 512, 138, 16},
                                     {7.5, 32, 4096, 36, 4, 1, 128, 512, 142, 16},
                                     {18.4, 48, 6144, 40, 8, 1, 256, 1024, 135, 8},
                                     {39.1, 64, 8192, 48, 8, 2, 512, 1536, 138, 4},
                                     {76.1, 80, 10240, 60, 8, 4, 1024, 1792, 140, 2, 3},
                                     {145.6, 96, 12288, 80, 8, 8, 1536, 2304, 148, 2, 2},
                                     {310.1, 128, 16384, 96, 8, 16, 1920, 2160, 155, 1, 2},
                                     {529.6, 128, 20480, 105, 8, 35, 2520, 2520, 163, 1, 3},
                                     {1008.0, 160, 25600, 128, 8, 64, 3072, 3072, 163, 1}};
  return runs;
}

/// Table 2: one model on growing numbers of GPUs.
const std::vector<Run>& strong_scaling() {
  static const std::vector<Run> runs{
      {174.6, 96, 12288, 96, 8, 12, 384, 1536, 153},    {174.6, 96, 12288, 96, 8, 12, 768, 1536, 149},
      {174.6, 96, 12288, 96, 8, 12, 1536, 1536, 141},   {529.6, 128, 20480, 105, 8, 35, 560, 2240, 171},
      {529.6, 128, 20480, 105, 8, 35, 1120, 2240, 167}, {529.6, 128, 20480, 105, 8, 35, 2240, 2240, 159}};
  return runs;
}

/// Table 2: ZeRO-3 without any other parallelism, by DeepSpeed. One micro-batch per step.
const std::vector<Run>& zero3_runs() {
  static const std::vector<Run> runs{
      {174.6, 96, 12288, 96, 1, 1, 384, 1536, 144, 4},   {174.6, 96, 12288, 96, 1, 1, 768, 1536, 88, 2},
      {174.6, 96, 12288, 96, 1, 1, 1536, 1536, 44, 1},   {529.6, 128, 20480, 105, 1, 1, 640, 2560, 138, 4},
      {529.6, 128, 20480, 105, 1, 1, 1120, 2240, 98, 2}, {529.6, 128, 20480, 105, 1, 1, 2240, 2240, 48, 1}};
  return runs;
}

/// The paper's FLOPs of a step: forward, backward and a second forward.
double step_flops(const Run& run) {
  const auto h = double(run.width), l = double(run.layers), s = double(kPositions), v = double(kWords);
  return 96 * double(run.batch) * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
}

GptRun as_gpt(const Run& run) {
  return {.heads = run.heads,
          .width = run.width,
          .layers = run.layers,
          .positions = kPositions,
          .words = kWords,
          .tensor = run.tensor,
          .data = run.gpus / run.tensor / run.pipeline,
          .pipeline = run.pipeline,
          .batch = run.batch,
          .micro_batch = run.micro_batch,
          .chunks = run.chunks};
}

/// Seconds of one block of `plan` with `samples` samples: forward twice, and backward.
double block_seconds(const Setting& setting, const DatasheetCosts& costs, const Plan& plan, int64_t samples) {
  double seconds = 0;
  for (NodeId id = setting.model.input_count(); id < NodeId(plan.layers.size()); ++id) {
    if (block_of(setting.model.node(id).name) != "transformer.h.0") continue;
    const LayerCost cost =
        costs.seconds(id, option_of(plan, setting.model, id), plan.layers[size_t(id)].tensor, samples);
    seconds += 2 * cost.forward + cost.backward;
  }
  return seconds;
}

/// Samples of a micro-batch by the paper's rule: of b = 1, 2, 4, 8 the one with the least (B / (d b) + p - 1) (t_f(b) +
/// t_b(b)).
int64_t best_micro_batch(const Setting& setting, const Run& run, const Plan& plan) {
  const DatasheetCosts costs(setting.model, setting.cluster, setting.precision, setting.optimizer_states);
  const int64_t share = run.batch / (run.gpus / run.tensor / run.pipeline);
  int64_t best = 1;
  double least = 0;
  for (const int64_t b : {1, 2, 4, 8}) {
    if (share % b != 0) continue;
    const double seconds = (double(share) / double(b) + run.pipeline - 1) * block_seconds(setting, costs, plan, b);
    if (least > 0 && seconds >= least) continue;
    least = seconds;
    best = b;
  }
  return best;
}

struct Speed {
  double teraflops;
  int64_t micro_batch;
};

Speed speed_of(const Run& run, const Cluster& cluster) {
  GptRun gpt_run = as_gpt(run);
  const Model model = gpt(gpt_run);
  if (run.micro_batch == 0) {
    const Cluster used = part_of(cluster, run.gpus);
    const Setting setting{.model = model,
                          .cluster = used,
                          .batch = run.batch,
                          .precision = Precision::bf16,
                          .optimizer_states = kAdamStates};
    gpt_run.micro_batch = 1;
    gpt_run.micro_batch = best_micro_batch(setting, run, gpt_plan(gpt_run, setting));
  }
  return {step_flops(run) / (run.gpus * gpt_step_seconds(gpt_run, model, cluster)) / kTera, gpt_run.micro_batch};
}

void add_rows(const std::vector<Run>& runs, const Cluster& cluster, Table& table) {
  for (const Run& run : runs) {
    const Speed speed = speed_of(run, cluster);
    table.rows.push_back({.what = fmt::format("{:.1f} B, data {} x tensor {} x pipeline {}", run.billions,
                                              run.gpus / run.tensor / run.pipeline, run.tensor, run.pipeline),
                          .published = run.teraflops,
                          .predicted = speed.teraflops,
                          .limit = kLimit,
                          .note = fmt::format("{} GPUs, micro-batches of {}{}", run.gpus, speed.micro_batch,
                                              run.chunks > 1 ? fmt::format(", {} chunks", run.chunks) : "")});
  }
}

}  // namespace

Table megatron_parameters() {
  Table table{.title = "Megatron-LM, table 1: parameters",
              .source = kMegatronSource,
              .quantity = "Billions of parameters",
              .setup = "none: parameters of the zoo's gpt2 at these sizes.",
              .calibrated = "nothing.",
              .decimals = 1,
              .rows = {},
              .claims = {},
              .remarks = {}};
  bool formula = true;
  for (const Run& run : weak_scaling()) {
    const double own = double(gpt(as_gpt(run)).parameter_count());
    const auto h = double(run.width), l = double(run.layers);
    const double by_formula = 12 * l * h * h * (1 + 13 / (12 * h) + double(kWords + kPositions) / (12 * l * h));
    const double last_norm = 2 * h;  // the paper's formula leaves it out
    formula = formula && std::abs(own - by_formula - last_norm) < 0.5;
    table.rows.push_back({.what = fmt::format("{} layers, width {}", run.layers, run.width),
                          .published = run.billions,
                          .predicted = own / kBillion,
                          .limit = 0.051 / run.billions,
                          .note = {}});
  }
  table.claim(
      "every model has as many parameters as the paper's formula, 12 l h^2 (1 + 13 / (12 h) + (V + s) / (12 l h)), "
      "plus those of the "
      "last norm",
      formula);
  return table;
}

Table megatron_speed() {
  Table table{
      .title = "Megatron-LM, tables 1 and 2: speed on up to 3,072 A100",
      .source = kMegatronSource,
      .quantity =
          "TFLOP/s per GPU by the paper's count of a step's FLOPs (F = 96 B s l h^2 (1 + s / (6 h) + V / (16 l h)))",
      .setup =
          "selene.cluster.toml, bf16, Adam, the same number of blocks per stage, every block recomputed with its "
          "communication, messages between stages in slices. Table 1: micro-batches and chunks per GPU as in the "
          "authors' script (Megatron-LM's repository, examples/sc21/run_table_1.sh); schedule interleaved where there "
          "are several chunks, else 1f1b. Table 2, for which there is no script: 1f1b, micro-batches by the paper's "
          "rule, the least `(B / (d b) + p - 1)(t_f(b) + t_b(b))`.",
      .calibrated =
          "nothing on these rows; `memory_efficiency` of the cluster file is fitted to one row of Korthikanti "
          "et al.",
      .decimals = 0,
      .rows = {},
      .claims = {},
      .remarks = {}};
  const Cluster cluster = example_cluster("selene");
  add_rows(weak_scaling(), cluster, table);
  const size_t weak = table.rows.size();
  add_rows(strong_scaling(), cluster, table);
  bool falls = true;
  for (size_t i = weak + 1; i < table.rows.size(); ++i)
    if (strong_scaling()[i - weak].billions == strong_scaling()[i - weak - 1].billions)
      falls = falls && *table.rows[i].predicted < *table.rows[i - 1].predicted;
  table.claim("with one model and one batch, each GPU does less when there are more GPUs (table 2)", falls);
  return table;
}

Table zero3_speed() {
  Table table{.title = "Megatron-LM, table 2: ZeRO-3 on up to 2,240 A100",
              .source = kMegatronSource,
              .quantity = "TFLOP/s per GPU, counted as in the table above",
              .setup =
                  "selene.cluster.toml with communication beside computing, bf16, Adam, zero3, every block recomputed, "
                  "one micro-batch of 4, 2 or 1 samples per GPU.",
              .calibrated = "`greatest_efficiency`, on the first row, and `network.bandwidth`, on the second.",
              .decimals = 0,
              .rows = {},
              .claims = {},
              .remarks = {}};
  Cluster file = example_cluster("selene");
  file.overlap = Overlap::all;
  const auto speed = [](const Run& run, const Model& model, const Cluster& cluster) {
    GptRun gpt_run = as_gpt(run);
    gpt_run.sharding = OptimizerSharding::zero3;
    return step_flops(run) / (run.gpus * gpt_step_seconds(gpt_run, model, cluster)) / kTera;
  };
  const Run &computing = zero3_runs()[0], &gathering = zero3_runs()[1];
  const Model model = gpt(as_gpt(computing));
  double efficiency = 1, bandwidth = file.network.bandwidth;
  for (int round = 0; round < kZero3Rounds; ++round) {  // each depends a little on the other
    bandwidth = solve(kSlowestNetwork, file.network.bandwidth, gathering.teraflops, [&](double b) {
      return speed(gathering, model, with_network(with_efficiency(file, efficiency), b));
    });
    efficiency = solve(kLeastEfficiency, 1, computing.teraflops, [&](double e) {
      return speed(computing, model, with_network(with_efficiency(file, e), bandwidth));
    });
  }
  const Cluster cluster = with_network(with_efficiency(file, efficiency), bandwidth);
  for (const Run& run : zero3_runs()) {
    const bool calibrated = &run == &computing || &run == &gathering;
    table.rows.push_back(
        {.what = fmt::format("{:.1f} B, {} GPUs, micro-batches of {}", run.billions, run.gpus, run.micro_batch),
         .published = run.teraflops,
         .predicted = speed(run, gpt(as_gpt(run)), cluster),
         .limit = calibrated ? std::nullopt : std::optional(kZero3Limit),
         .is_calibrated = calibrated,
         .note = &run == &computing   ? fmt::format("efficiency {:.2f}", efficiency)
                 : &run == &gathering ? fmt::format("{:.0f} GB/s per node", bandwidth / kGiga)
                                      : ""});
  }
  table.remarks = fmt::format(
      "The fitted bandwidth is about that of one of a node's eight ports (25 GB/s): per step all weights are gathered "
      "twice "
      "and their gradients scattered once, and the published runs took nearly the same time for that on 768 and on "
      "1,536 GPUs. "
      "With all eight ports these runs would have been faster: {:.0f} TFLOP/s on 1,536 GPUs.",
      speed(zero3_runs()[2], model, with_efficiency(file, efficiency)));
  return table;
}

}  // namespace trireme::validation
