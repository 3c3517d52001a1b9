// Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", 2022 (arXiv 2205.05198).
#include <fmt/format.h>

#include <initializer_list>

#include "validation/gpt_runs.h"
#include "validation/tables.h"

namespace trireme::validation {
namespace {

constexpr const char* kKorthikantiSource = "Korthikanti et al., arXiv 2205.05198, NVIDIA Selene";
constexpr double kKorthikantiLimit = 0.1, kKorthikantiMean = 0.04, kKorthikantiMemory = 0.03;

struct Size {
  const char* name;
  int heads;
  int64_t width;
  int layers, tensor, pipeline, chunks;
  int64_t batch, micro_batch;
  double full, selective;      ///< seconds of a step: full recompute; selective recompute with a split sequence
  double states, activations;  ///< GiB on the first stage: parameters and optimizer; activations without recompute
  /// Activations in % of these: a split sequence, selective recompute, both, full recompute.
  double split, selected, both, recomputed;
};

const std::vector<Size>& sizes() {
  static const std::vector<Size> all{
      {"22 B", 64, 6144, 48, 8, 1, 1, 4, 4, 1.42, 1.10, 45.56, 59.25, 66.84, 49.42, 16.18, 7.64},
      {"175 B", 96, 12288, 96, 8, 8, 3, 64, 1, 18.13, 13.75, 45.56, 66.84, 62.04, 56.53, 18.49, 8.71},
      {"530 B", 128, 20480, 105, 8, 35, 3, 280, 1, 49.05, 37.83, 31.64, 114.02, 58.31, 62.04, 20.27, 9.42},
      {"1 T", 160, 25600, 128, 8, 64, 1, 512, 1, 94.42, 71.49, 32.96, 131.25, 58.31, 62.04, 20.27, 9.42}};
  return all;
}

GptRun run_of(const Size& size, Recomputed recomputed, bool splits_sequence) {
  return {.heads = size.heads,
          .width = size.width,
          .layers = size.layers,
          .tensor = size.tensor,
          .pipeline = size.pipeline,
          .batch = size.batch,
          .micro_batch = size.micro_batch,
          .chunks = size.chunks,
          .recomputed = recomputed,
          .splits_sequence = splits_sequence};
}

double gibibytes(const MemoryUse& use, std::initializer_list<MemoryCategory> categories) {
  double bytes = 0;
  for (const MemoryCategory category : categories) bytes += double(use.at_peak[size_t(category)]);
  return bytes / kGibibyte;
}

/// GiB that blocks keep on the first stage, without embeddings and without what the block that computes needs for a
/// while: what as many layers again add to the peak.
double kept_by_blocks(GptRun run, const Cluster& cluster, std::initializer_list<MemoryCategory> categories) {
  const auto at_peak = [&] { return gibibytes(gpt_memory(run, gpt(run), cluster).front(), categories); };
  const double once = at_peak();
  run.layers *= 2;
  return at_peak() - once;
}

}  // namespace

Table korthikanti_speed() {
  Table table{.title = "Korthikanti et al.: recompute on up to 512 A100",
              .source = kKorthikantiSource,
              .quantity = "Seconds of a step",
              .setup =
                  "selene.cluster.toml, bf16 (published: fp16), Adam, 1f1b or, with chunks, interleaved. Full: "
                  "every block recomputed with its communication. Selective: the scores of attention, and the "
                  "sequence is split where tensor ranks would have it whole.",
              .calibrated = "`memory_efficiency` of the cluster file, on the row of 22 B with full recompute.",
              .decimals = 2,
              .rows = {},
              .claims = {},
              .remarks = {}};
  const Cluster cluster = example_cluster("selene");
  double sum = 0;
  for (const Size& size : sizes())
    for (const bool selective : {false, true}) {
      const GptRun run = run_of(size, selective ? Recomputed::attention : Recomputed::blocks, selective);
      const bool calibrated = &size == &sizes().front() && !selective;
      table.rows.push_back({.what = fmt::format("{}, {}", size.name, selective ? "selective" : "full"),
                            .published = selective ? size.selective : size.full,
                            .predicted = gpt_step_seconds(run, gpt(run), cluster),
                            .limit = calibrated ? std::nullopt : std::optional(kKorthikantiLimit),
                            .is_calibrated = calibrated,
                            .note = fmt::format("{} GPUs", run.gpus())});
      if (!calibrated) sum += std::abs(table.rows.back().error());
    }
  const double mean = sum / double(table.rows.size() - 1);
  table.claim(fmt::format("the mean absolute error is at most {:.0f} %", 100 * kKorthikantiMean),
              mean <= kKorthikantiMean);
  table.remarks = fmt::format(
      "The mean absolute error is {:.1f} %. With a split sequence all rows are predicted too fast: reduce-scatters and "
      "all-gathers are assumed to use the links as well as all-reduces.",
      100 * mean);
  return table;
}

Table korthikanti_memory() {
  Table table{
      .title = "Korthikanti et al.: memory of the first stage",
      .source = kKorthikantiSource,
      .quantity = "GiB; the publication's numbers are those of its formulas",
      .setup =
          "as in the table above. What as many layers again would add: blocks only, as in the publication, without "
          "what the block that computes needs for a while.",
      .calibrated = "nothing.",
      .decimals = 2,
      .rows = {},
      .claims = {},
      .remarks =
          "Without selective recompute Trireme keeps less: it computes again what dropout gives in attention, "
          "so it keeps 3 bytes per score where the publication has 5; these rows have no limit."};
  const Cluster cluster = example_cluster("selene");
  for (const Size& size : sizes()) {
    const GptRun full = run_of(size, Recomputed::blocks, false);
    table.rows.push_back(
        {.what = fmt::format("{}, weights, gradients, optimizer", size.name),
         .published = size.states,
         .predicted = kept_by_blocks(full, cluster,
                                     {MemoryCategory::weights, MemoryCategory::gradients, MemoryCategory::optimizer}),
         .limit = kKorthikantiMemory,
         .note = {}});
    struct Kind {
      const char* name;
      double percent;
      Recomputed recomputed;
      bool splits;
    };
    for (const Kind& kind : {Kind{"no recompute", 100, Recomputed::nothing, false},
                             Kind{"split sequence", size.split, Recomputed::nothing, true},
                             Kind{"selective", size.selected, Recomputed::attention, false},
                             Kind{"selective, split sequence", size.both, Recomputed::attention, true},
                             Kind{"full", size.recomputed, Recomputed::blocks, false}}) {
      const bool same_scores = kind.recomputed != Recomputed::nothing;
      table.rows.push_back({.what = fmt::format("{}, activations, {}", size.name, kind.name),
                            .published = kind.percent / 100 * size.activations,
                            .predicted = kept_by_blocks(run_of(size, kind.recomputed, kind.splits), cluster,
                                                        {MemoryCategory::activations}),
                            .limit = same_scores ? std::optional(kKorthikantiMemory) : std::nullopt,
                            .note = {}});
    }
  }
  return table;
}

}  // namespace trireme::validation
