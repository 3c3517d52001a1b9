// Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", 2022 (arXiv 2205.05198).
#include <fmt/format.h>

#include "validation/gpt_runs.h"
#include "validation/tables.h"

namespace trireme::validation {
namespace {

constexpr const char* kKorthikantiSource = "Korthikanti et al., arXiv 2205.05198, NVIDIA Selene";
constexpr double kKorthikantiLimit = 0.1, kKorthikantiMean = 0.04;

struct Size {
  const char* name;
  int heads;
  int64_t width;
  int layers, tensor, pipeline, chunks;
  int64_t batch, micro_batch;
  double full, selective;  ///< seconds of a step: full recompute; selective recompute with a split sequence
};

const std::vector<Size>& sizes() {
  static const std::vector<Size> all{{"22 B", 64, 6144, 48, 8, 1, 1, 4, 4, 1.42, 1.10},
                                     {"175 B", 96, 12288, 96, 8, 8, 3, 64, 1, 18.13, 13.75},
                                     {"530 B", 128, 20480, 105, 8, 35, 3, 280, 1, 49.05, 37.83},
                                     {"1 T", 160, 25600, 128, 8, 64, 1, 512, 1, 94.42, 71.49}};
  return all;
}

GptRun run_of(const Size& size, bool selective) {
  return {.heads = size.heads,
          .width = size.width,
          .layers = size.layers,
          .tensor = size.tensor,
          .pipeline = size.pipeline,
          .batch = size.batch,
          .micro_batch = size.micro_batch,
          .chunks = size.chunks,
          .recomputed = selective ? Recomputed::attention : Recomputed::blocks,
          .splits_sequence = selective};
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
      const GptRun run = run_of(size, selective);
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

}  // namespace trireme::validation
