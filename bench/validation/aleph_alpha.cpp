// Hagemann et al., "Efficient Parallelization Layouts for Large-Scale Distributed Model Training", NeurIPS 2023
// workshop WANT (Aleph Alpha): Llama models on 32 and 64 A100, timed runs and runs that ended for want of memory.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <string>
#include <string_view>

#include "cost/memory.h"
#include "validation/data_file.h"
#include "validation/gpt_runs.h"
#include "validation/order.h"
#include "validation/tables.h"

namespace trireme::validation {
namespace {

constexpr const char* kAlephSource = "Hagemann et al., NeurIPS 2023 workshop WANT, the repository's workbooks";
constexpr double kAlephLimit = 0.25, kAlephRegret = 0.02, kAlephPrecision = 0.95, kAlephRecall = 0.95, kAlephNear = 0.1;
constexpr int64_t kAlephWords = 128000, kAlephBatch = 2048, kAlephPositions = 2048;

struct AlephRun {
  GptRun run;
  int billions = 0;
  bool has_fused_norms = false;
  double seconds = 0;  ///< 0: it ended for want of memory

  bool ran() const { return seconds > 0; }
  std::string in_words() const {
    return fmt::format("{} B, {}{}", billions, run.in_words(), run.splits_sequence ? ", split sequence" : "");
  }
};

std::vector<AlephRun> aleph_runs() {
  std::vector<AlephRun> runs;
  for (const std::vector<std::string>& cells : read_cells("aleph_alpha.csv")) {
    const auto number = [&](size_t i) { return std::stoi(cells.at(i)); };
    const bool large = number(0) == 65;
    const int tensor = number(3), pipeline = number(4);
    const std::string_view kernel = cells.at(6);
    runs.push_back({.run = {.heads = large ? 64 : 40,
                            .width = large ? 8192 : 5120,
                            .layers = large ? 80 : 40,
                            .positions = kAlephPositions,
                            .words = kAlephWords,
                            .hidden = large ? 22016 : 13824,
                            .tensor = tensor,
                            .data = number(1) / tensor / pipeline,
                            .pipeline = pipeline,
                            .batch = kAlephBatch,
                            .micro_batch = number(2),
                            .recomputed = number(5) ? Recomputed::blocks : Recomputed::nothing,
                            .sharding = OptimizerSharding::zero1,
                            .stores_bf16_gradients = true,
                            .gathers_logits = tensor > 1,
                            .splits_sequence = number(7) != 0 && tensor > 1},
                    .billions = number(0),
                    .has_fused_norms = kernel == "fa2+rms",
                    .seconds = cells.at(8) == "oom" ? 0 : std::stod(cells.at(8))});
  }
  return runs;
}

/// Seconds of runs of one model on one number of GPUs.
struct Seconds {
  std::vector<double> published, predicted;
};

/// Share of the peak of FlashAttention-2 on an A100, causal, 2,048 positions, heads of 128 features, forward and
/// backward: about 170 TFLOP/s in the figures of Dao, "FlashAttention-2", 2023.
constexpr double kFlashAttention2 = 0.55;

Cluster aleph_cluster() {
  Cluster cluster = example_cluster("a100-800g");
  for (DeviceKind& kind : cluster.kinds) kind.fused_attention = kFlashAttention2;
  return cluster;
}

std::string model_name(const AlephRun& run) { return fmt::format("{} B on {} GPUs", run.billions, run.run.gpus()); }

}  // namespace

Table aleph_alpha_speed() {
  Table table{.title = "Aleph Alpha: layouts of Llama on 32 and 64 A100",
              .source = kAlephSource,
              .quantity = "Seconds of a step",
              .setup = fmt::format(
                  "a100-800g.cluster.toml (the publication does not give the network), attention at {} of the peak "
                  "(FlashAttention-2), bf16, Adam, zero1, 1f1b, 2,048 samples of 2,048 positions, 128,000 words. "
                  "Only runs with a fused norm, as Trireme's RMS norm is one operator. Logits are gathered on every "
                  "tensor rank: an assumption, see the next table.",
                  kFlashAttention2),
              .calibrated = "`greatest_efficiency`, on the first row.",
              .decimals = 1,
              .rows = {},
              .claims = {},
              .remarks = {}};
  Cluster cluster = aleph_cluster();
  std::map<std::string, Seconds> models;
  double sum = 0;
  for (const AlephRun& timed : aleph_runs()) {
    if (!timed.has_fused_norms || !timed.ran()) continue;
    const Model model = gpt(timed.run);
    const bool calibrated = table.rows.empty();
    if (calibrated) cluster = with_fitted_efficiency(cluster, timed.run, timed.seconds);
    const double predicted = gpt_step_seconds(timed.run, model, cluster);
    table.rows.push_back({.what = timed.in_words(),
                          .published = timed.seconds,
                          .predicted = predicted,
                          .limit = calibrated ? std::nullopt : std::optional(kAlephLimit),
                          .is_calibrated = calibrated,
                          .note = calibrated ? fmt::format("efficiency {:.2f}", efficiency_of(cluster))
                                             : fmt::format("{} GPUs", timed.run.gpus())});
    if (!calibrated) sum += std::abs(table.rows.back().error());
    Seconds& seconds = models[model_name(timed)];
    seconds.published.push_back(timed.seconds);
    seconds.predicted.push_back(predicted);
  }
  table.remarks = fmt::format("The mean absolute error is {:.1f} %.", 100 * sum / double(table.rows.size() - 1));
  for (const auto& [name, seconds] : models) {
    const double lost = regret(seconds.published, seconds.predicted);
    table.claim(
        fmt::format("{}: the run that is predicted to be the fastest is at most 2 % slower than the fastest", name),
        lost <= kAlephRegret);
    table.remarks += fmt::format(" Of {}, Kendall's rank correlation is {:.2f}.", name,
                                 kendall(seconds.published, seconds.predicted));
  }
  return table;
}

Table aleph_alpha_memory() {
  Table table{
      .title = "Aleph Alpha: which layouts of Llama fit an A100",
      .source = kAlephSource,
      .quantity =
          "Memory in GiB; as published the greatest that the GPU has, which the runs marked \"out of memory\" exceeded",
      .setup =
          "as in the table above, with gradients stored in bfloat16 (compression = bf16-stored): with float32 "
          "the first run, which ran, would need 105 GB. For the logits see above: if they were divided, the runs with "
          "tensor 2 "
          "and micro-batches of 4, which did not fit, would need 6 GB less. Predicted is what tensors take with the "
          "allocator's overhead and what driver and libraries reserve, as the cluster file has them.",
      .calibrated = "`allocator_overhead` of the cluster file, on these rows.",
      .decimals = 1,
      .rows = {},
      .claims = {},
      .remarks = {}};
  const Cluster cluster = aleph_cluster();
  const DeviceKind& kind = cluster.kinds.front();
  int right = 0, said = 0, failed = 0, layouts = 0;
  for (const AlephRun& timed : aleph_runs()) {
    if (!timed.has_fused_norms) continue;
    const MemoryUse use = greatest_gpt_memory(timed.run, gpt(timed.run), cluster);
    const int64_t taken = kind.reserved + kind.taken_by(use.peak, changing_at_peak(use));
    const bool fits = taken <= kind.memory;
    failed += timed.ran() ? 0 : 1;
    said += fits ? 0 : 1;
    right += !fits && !timed.ran() ? 1 : 0;
    ++layouts;
    const double share = double(taken) / double(kind.memory);
    if (fits == timed.ran() && std::abs(share - 1) > kAlephNear) continue;
    table.rows.push_back({.what = timed.in_words(),
                          .published = double(kind.memory) / kGibibyte,
                          .predicted = double(taken) / kGibibyte,
                          .limit = std::nullopt,
                          .note = fmt::format("{} GPUs, {}{}", timed.run.gpus(), timed.ran() ? "ran" : "out of memory",
                                              fits == timed.ran() ? "" : ", predicted otherwise")});
  }
  const double precision = double(right) / said, recall = double(right) / failed;
  table.claim(fmt::format("of the layouts that are said not to fit, at least {:.0f} % did not (precision)",
                          100 * kAlephPrecision),
              precision >= kAlephPrecision);
  table.claim(fmt::format("of those that did not fit, at least {:.0f} % are said not to (recall)", 100 * kAlephRecall),
              recall >= kAlephRecall);
  table.remarks = fmt::format(
      "Of {} layouts {} ran out of memory: precision {:.2f}, recall {:.2f}. Shown are those that need within {:.0f} % "
      "of "
      "what the GPU has, and those that are predicted otherwise.",
      layouts, failed, precision, recall, 100 * kAlephNear);
  return table;
}

}  // namespace trireme::validation
