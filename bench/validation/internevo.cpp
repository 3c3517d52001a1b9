// InternEvo's InternLM-7B on 8 to 1,024 A100 (InternLM/InternEvo, doc/en/train_performance.md, commit c628a8c8).
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "validation/gpt_runs.h"
#include "validation/tables.h"

namespace trireme::validation {
namespace {

constexpr double kInternEvoLimit = 0.2;
constexpr int kGpusOfNode = 8, kMostGpus = 1024, kAccumulated = 4;
constexpr double kNodeBandwidth = 46e9;  // bytes/s of 4 x 100 Gbit/s, at the share that a100-800g states

/// Tokens per second of a GPU, on 8, 16, ... 1,024 GPUs.
struct Scaling {
  int tensor, group;  ///< GPUs that divide the optimizer's state; 0: all
  std::vector<double> tokens;
  std::string in_words(int gpus) const {
    return fmt::format("{} GPUs, tensor {}, state divided over {}", gpus, tensor, group > 0 ? group : gpus / tensor);
  }
};

const std::vector<Scaling>& scalings() {
  static const std::vector<Scaling> all{{1, 0, {4062, 3842, 3752, 3690, 3571, 3209, 2861, 2271}},
                                        {1, 8, {4078, 3939, 3919, 3944, 3928, 3920, 3835, 3625}},
                                        {2, 0, {3822, 3595, 3475, 3438, 3308, 3094, 2992, 2785}},
                                        {2, 4, {3761, 3658, 3655, 3650, 3651, 3653, 3589, 3486}}};
  return all;
}

GptRun run_of(const Scaling& scaling, int gpus) {
  const int data = gpus / scaling.tensor;
  const int64_t micro_batch = scaling.tensor == 1 ? 2 : 4;
  return {.heads = 32,
          .width = 4096,
          .layers = 32,
          .positions = 2048,
          .words = 103168,
          .hidden = 11008,
          .key_heads = 32,
          .tensor = scaling.tensor,
          .data = data,
          .batch = micro_batch * kAccumulated * data,
          .micro_batch = micro_batch,
          .recomputed = Recomputed::nothing,
          .sharding = OptimizerSharding::zero1,
          .sharding_group = scaling.group};
}

double tokens_per_second(const GptRun& run, double seconds) {
  return double(run.batch * run.positions) / (run.gpus() * seconds);
}

}  // namespace

Table internevo_speed() {
  Table table{.title = "InternEvo: optimizer state divided over all replicas or over 8",
              .source = "InternLM/InternEvo, doc/en/train_performance.md, commit c628a8c8",
              .quantity = "Tokens per second of a GPU, InternLM-7B",
              .setup =
                  "a100-800g.cluster.toml with 46 GB/s between nodes (4 x 100 Gbit/s) and sums beside the backward, "
                  "bf16, Adam, zero1, no recompute, 4 micro-batches of 2 samples (tensor 1) or 4 (tensor 2) of "
                  "2,048 positions for each replica. The groups are sharding_group.",
              .calibrated = "`greatest_efficiency`, on the first row.",
              .decimals = 0,
              .rows = {},
              .claims = {},
              .remarks = {}};
  Cluster cluster = with_devices(with_network(example_cluster("a100-800g"), kNodeBandwidth), kMostGpus);
  cluster.overlap = Overlap::sums;
  const Model model = gpt(run_of(scalings().front(), kGpusOfNode));
  const GptRun first = run_of(scalings().front(), kGpusOfNode);
  cluster = with_fitted_efficiency(
      cluster, first, double(first.batch * first.positions) / (first.gpus() * scalings().front().tokens.front()));
  double error = 0;
  std::map<std::pair<int, int>, double> predicted;  // by tensor degree and group, on the most GPUs
  for (const Scaling& scaling : scalings())
    for (size_t i = 0; i < scaling.tokens.size(); ++i) {
      const int gpus = kGpusOfNode << i;
      const GptRun run = run_of(scaling, gpus);
      const double tokens = tokens_per_second(run, gpt_step_seconds(run, model, cluster));
      const bool calibrated = table.rows.empty();
      predicted[{scaling.tensor, scaling.group}] = tokens;
      table.rows.push_back({.what = scaling.in_words(gpus),
                            .published = scaling.tokens[i],
                            .predicted = tokens,
                            .limit = calibrated ? std::nullopt : std::optional(kInternEvoLimit),
                            .is_calibrated = calibrated,
                            .note = calibrated ? fmt::format("efficiency {:.2f}", efficiency_of(cluster)) : ""});
      if (!calibrated) error += std::abs(table.rows.back().error());
    }
  table.remarks = fmt::format("The mean absolute error is {:.1f} %.", 100 * error / double(table.rows.size() - 1));
  table.claim("on 1,024 GPUs groups of 8 are faster than all replicas together, as published",
              predicted[{1, 8}] > predicted[{1, 0}] && predicted[{2, 4}] > predicted[{2, 0}]);
  return table;
}

}  // namespace trireme::validation
