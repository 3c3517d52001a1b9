// GPipe: Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism", NeurIPS 2019, tables 1 to 3.
#include <fmt/format.h>

#include <map>

#include "validation/simulated.h"
#include "validation/tables.h"
#include "zoo/zoo.h"

namespace trireme::validation {
namespace {

constexpr const char* kSource = "Huang et al., GPipe, NeurIPS 2019";
constexpr double kGate = 0.1;       // of throughputs
constexpr int64_t kBatch = 32;      // of table 1
constexpr int kMany = 32;           // micro-batches of the rows that are gates
constexpr double kGiB = 1 << 30;

/// The paper's Transformer: width 2048, inner width 8192, 32 heads, sequences of 1024 of 32,000 words, the output's weight its own.
Model transformer(int layers) {
  ModelSpec spec;
  spec.name = "transformer-lm";
  spec.sample_shape = spec.target_shape = {1024};
  spec.classes = spec.vocabulary = 32000;
  spec.task = LearningTask::language;
  spec.options = {{"layers", layers}, {"width", 2048}, {"heads", 32}, {"tied", 0}};
  return make_model(spec);
}

double samples_per_second(const Setting& setting, int stages, int micro_batches) {
  Plan plan = balanced_plan(setting, {.pipeline = stages, .micro_batches = micro_batches}, "gpipe");
  recompute_blocks(setting.model, /*last=*/true, plan);
  return double(setting.batch) / step_seconds(setting, plan);
}

struct Published {
  int stages, micro_batches;
  double ratio;
};

/// Rows relative to the first one.
void add_rows(const Setting& setting, const std::string& model, const std::vector<Published>& published, Table& table) {
  double first = 0;
  for (const Published& p : published) {
    const double rate = samples_per_second(setting, p.stages, p.micro_batches);
    if (first == 0) first = rate;
    Row row{.what = fmt::format("{}, K = {}, M = {}", model, p.stages, p.micro_batches), .published = p.ratio, .predicted = rate / first,
            .gate = {}, .note = {}};
    if (&p == &published.front()) row.note = "the unit";
    else if (p.micro_batches == kMany) row.gate = kGate;
    table.rows.push_back(std::move(row));
  }
}

void add_amoebanet(const std::vector<Published>& published, Table& table) {
  for (const Published& p : published)
    table.rows.push_back({.what = fmt::format("AmoebaNet-D, K = {}, M = {}", p.stages, p.micro_batches),
                          .published = p.ratio,
                          .predicted = {},
                          .gate = {},
                          .note = "not in the zoo"});
}

}  // namespace

Table gpipe_weights() {
  Table table{.title = "GPipe, table 1: memory of a Transformer's weights",
              .source = kSource,
              .quantity = "GiB of weights and their RMSProp state, 12 bytes per parameter, over all accelerators",
              .setup = "none: parameters of the zoo's transformer-lm (width 2048, 32,000 words) times 12 bytes.",
              .calibrated = "nothing.",
              .rows = {},
              .claims = {},
              .remarks =
                  "For naive-1 the paper prints 11.7 as the weights and 3.15 as the activations: by its own arithmetic they have changed "
                  "places. Peaks of activations are not compared here."};
  const std::vector<std::pair<int, double>> published{{3, 3.15}, {13, 8.8}, {103, 59.5}, {415, 235.1}, {1663, 937.9}};
  for (const auto& [layers, gib] : published)
    table.rows.push_back({.what = fmt::format("{} layers", layers), .published = gib,
                          .predicted = 12 * double(transformer(layers).parameter_count()) / kGiB, .gate = 0.01, .note = {}});
  return table;
}

Table gpipe_tpu() {
  Table table{
      .title = "GPipe, table 2: Transformer-48 on TPUs",
      .source = kSource,
      .quantity = "Throughput over that of 2 partitions with 1 micro-batch",
      .setup =
          "tpu-v3-8.cluster.toml, gpipe schedule, every block recomputed, stages balanced by predicted seconds, batch 32 (table 1's; "
          "that of table 2 is not given).",
      .calibrated = "nothing.",
      .rows = {},
      .claims = {},
      .remarks =
          "M = 4: the published 3.2 and 4.8 exceed even an ideal pipeline of equal stages at one batch size (2.29 and 2.91), so the "
          "batch must have grown with M there; with one batch for all rows they cannot come out, and are no gates."};
  const Model model = transformer(48);
  const Cluster cluster = example_cluster("tpu-v3-8");
  const Setting setting{.model = model, .cluster = cluster, .batch = kBatch};
  add_rows(
      setting, "Transformer-48",
      {{2, 1, 1}, {4, 1, 1.07}, {8, 1, 1.3}, {2, 4, 1.7}, {4, 4, 3.2}, {8, 4, 4.8}, {2, kMany, 1.8}, {4, kMany, 3.4}, {8, kMany, 6.3}},
      table);
  add_amoebanet({{2, kMany, 1.21}, {4, kMany, 1.84}, {8, kMany, 3.48}}, table);
  return table;
}

Table gpipe_p100() {
  Table table{.title = "GPipe, table 3: Transformer-24 on P100 without NVLink", .source = kSource,
              .quantity = "Throughput over that of 2 partitions, 32 micro-batches",
              .setup = "8xp100-pcie.cluster.toml, otherwise as above.", .calibrated = "nothing.", .rows = {}, .claims = {}, .remarks = {}};
  const Model model = transformer(24);
  const Cluster cluster = example_cluster("8xp100-pcie");
  const Setting setting{.model = model, .cluster = cluster, .batch = kBatch};
  add_rows(setting, "Transformer-24", {{2, kMany, 1}, {4, kMany, 1.8}, {8, kMany, 3.3}}, table);
  add_amoebanet({{4, kMany, 1.7}, {8, kMany, 2.7}}, table);
  return table;
}

}  // namespace trireme::validation
