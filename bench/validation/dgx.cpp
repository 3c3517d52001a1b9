// NVIDIA/dgxc-benchmarking, Llama 3.1 8B on 8 to 128 H100 (README of v25.02.02).
#include <fmt/format.h>

#include <cmath>

#include "validation/gpt_runs.h"
#include "validation/tables.h"

namespace trireme::validation {
namespace {

constexpr double kDgxLimit = 0.05;
constexpr int64_t kSamplesPerGpu = 16;

GptRun llama_8b(int gpus) {
  return {.heads = 32,
          .width = 4096,
          .layers = 32,
          .positions = 8192,
          .words = 128256,
          .hidden = 14336,
          .key_heads = 8,
          .tensor = 2,
          .data = gpus / 2,
          .batch = kSamplesPerGpu * gpus,
          .micro_batch = 1,
          .recomputed = Recomputed::nothing,
          .sharding = OptimizerSharding::zero1,
          .splits_context = true};
}

}  // namespace

Table dgx_speed() {
  Table table{.title = "NVIDIA DGX Cloud: Llama 3.1 8B on 8 to 128 H100",
              .source = "NVIDIA/dgxc-benchmarking, README at v25.02.02, bf16",
              .quantity = "Seconds of a step of 16 samples of 8,192 positions per GPU",
              .setup =
                  "h100-400g.cluster.toml, bf16, Adam, zero1, 32 micro-batches of 1; positions divided over 2 GPUs "
                  "(context parallelism: each gathers keys and values, where the published runs pass them on in a "
                  "ring).",
              .calibrated = "`greatest_efficiency`, on the first row.",
              .decimals = 2,
              .rows = {},
              .claims = {},
              .remarks = {}};
  struct Published {
    int gpus;
    double seconds;
  };
  const Published published[] = {{8, 12.78}, {16, 12.99}, {32, 13.00}, {64, 13.00}, {128, 13.16}};
  const GptRun first = llama_8b(published[0].gpus);
  const Model model = gpt(first);
  const Cluster cluster = with_fitted_efficiency(example_cluster("h100-400g"), first, published[0].seconds);
  for (const Published& row : published) {
    const bool calibrated = &row == &published[0];
    table.rows.push_back({.what = fmt::format("{} GPUs", row.gpus),
                          .published = row.seconds,
                          .predicted = gpt_step_seconds(llama_8b(row.gpus), model, cluster),
                          .limit = calibrated ? std::nullopt : std::optional(kDgxLimit),
                          .is_calibrated = calibrated,
                          .note = calibrated ? fmt::format("efficiency {:.2f}", efficiency_of(cluster)) : ""});
  }
  return table;
}

}  // namespace trireme::validation
