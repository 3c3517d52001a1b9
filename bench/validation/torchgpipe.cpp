// torchgpipe: Kim et al., "torchgpipe: On-the-fly Pipeline Parallelism for Training Giant Models", 2020, and the
// benchmarks beside it.
#include <fmt/format.h>

#include "validation/amoebanet.h"
#include "validation/resnet101.h"
#include "validation/simulated.h"
#include "validation/tables.h"
#include "validation/unet.h"

namespace trireme::validation {
namespace {

constexpr const char* kSource = "Kim et al., torchgpipe, 2020, benchmarks on 8 Tesla P40 over PCIe";
constexpr double kLimit = 0.2;
constexpr double kMillion = 1e6;

/// A pipeline with one worker per partition that recomputes all micro-batches but the last.
Plan pipeline_plan(const Setting& setting, int workers, int micro_batches, const std::vector<int>& stages) {
  Plan plan = balanced_plan(setting, {.micro_batches = micro_batches}, "gpipe");
  plan.devices = workers;
  plan.stages.assign(size_t(workers), {});
  for (int worker = 0; worker < workers; ++worker) plan.stages[size_t(worker)] = {worker};
  for (size_t id = 0; id < plan.layers.size(); ++id) plan.layers[id].stage = stages[id];
  recompute_stages(/*last=*/false, plan);
  return plan;
}

struct SpeedRow {
  const char* name;
  double published;
  int64_t batch;
  int chunks;
  std::vector<int> balance;
};

double unet_rate(const SequentialModel& net, const Cluster& cluster, const SpeedRow& row) {
  const Setting setting{.model = net.model, .cluster = cluster, .batch = row.batch};
  const Plan plan = row.chunks == 0
                        ? balanced_plan(setting, {}, "gpipe")
                        : pipeline_plan(setting, int(row.balance.size()), row.chunks, stages_of(net, row.balance));
  return double(row.batch) / step_seconds(setting, plan);
}

}  // namespace

Table unet_weights() {
  Table table{.title = "torchgpipe: parameters of U-Net",
              .source = kSource,
              .quantity = "Millions of parameters of U-Net(B, C)",
              .setup = "none: parameters of the model that is simulated in the next table.",
              .calibrated = "nothing.",
              .decimals = 1,
              .rows = {},
              .claims = {},
              .remarks =
                  "The published memory of these rows includes activations of a batch whose size is not given; memory "
                  "is not compared."};
  struct Published {
    int convolutions;
    int64_t channels;
    double millions, unit;  // the last digit printed
  };
  for (const Published& p : {Published{6, 72, 362.2, 0.1}, Published{11, 128, 2210, 10}, Published{24, 128, 4990, 10},
                             Published{24, 160, 7800, 10}, Published{48, 160, 15820, 10}}) {
    const double own = double(torchgpipe_unet(p.convolutions, p.channels, 192).model.parameter_count()) / kMillion;
    table.rows.push_back({.what = fmt::format("U-Net({}, {})", p.convolutions, p.channels),
                          .published = p.millions,
                          .predicted = own,
                          .limit = p.unit / p.millions,
                          .note = {}});
  }
  return table;
}

Table amoebanet_weights() {
  Table table{.title = "torchgpipe: parameters of AmoebaNet-D",
              .source = kSource,
              .quantity = "Millions of parameters of AmoebaNet-D(L, D)",
              .setup = "none: parameters of the model that is simulated in GPipe's tables.",
              .calibrated = "nothing.",
              .decimals = 1,
              .rows = {},
              .claims = {},
              .remarks = {}};
  struct Published {
    int layers;
    int64_t filters;
    double millions, unit;  // the last digit printed
  };
  for (const Published& p :
       {Published{18, 208, 81.5, 0.1}, Published{18, 416, 319, 0.1}, Published{18, 544, 542.7, 0.1},
        Published{36, 544, 1060, 10}, Published{72, 512, 1840, 10}}) {
    const double own = double(amoebanet(p.layers, p.filters).model.parameter_count()) / kMillion;
    table.rows.push_back({.what = fmt::format("AmoebaNet-D({}, {})", p.layers, p.filters),
                          .published = p.millions,
                          .predicted = own,
                          .limit = p.unit / p.millions,
                          .note = {}});
  }
  return table;
}

Table unet_speed() {
  Table table{.title = "torchgpipe: U-Net(5, 64) on images of 192 x 192",
              .source = kSource,
              .quantity = "Samples per second",
              .setup =
                  "8xp40.cluster.toml with the published batches, chunks and balances of modules; gpipe schedule, all "
                  "chunks but the last "
                  "recomputed; skip connections are sent directly from stage to stage (portals).",
              .calibrated = "`greatest_efficiency`, on the baseline.",
              .decimals = 1,
              .rows = {},
              .claims = {},
              .remarks =
                  "The balances were tuned for the real times of the layers. A datasheet has other proportions between "
                  "convolutions and the "
                  "memory-bound layers between them, so the predicted slowest stage is too slow. All GPUs are assumed "
                  "to share one PCIe link "
                  "through the host; the real machine has several switches. The rows of the ablation without portals, "
                  "copy streams and the order "
                  "of backward passes are left out: Trireme cannot switch these off."};
  const SequentialModel net = torchgpipe_unet(5, 64, 192);
  const Cluster cluster = example_cluster("8xp40");
  const std::vector<SpeedRow> rows{
      {"baseline, batch 40", 28.500, 40, 0, {}},
      {"pipeline-1, batch 80, 2 chunks", 24.456, 80, 2, {241}},
      {"pipeline-2, batch 512, 32 chunks", 35.502, 512, 32, {104, 137}},
      {"pipeline-4, batch 512, 16 chunks", 67.042, 512, 16, {30, 66, 84, 61}},
      {"pipeline-8, batch 640, 40 chunks", 88.497, 640, 40, {16, 27, 31, 44, 22, 57, 27, 17}},
      {"ablation, all on: 4 GPUs, batch 128, 8 chunks", 58.477, 128, 8, {34, 76, 70, 61}}};
  constexpr size_t kLastOfGrowth = 4;
  const double share = solve(0.05, 1, rows.front().published,
                             [&](double s) { return unet_rate(net, with_efficiency(cluster, s), rows.front()); });
  const Cluster calibrated = with_efficiency(cluster, share);
  for (const SpeedRow& row : rows) {
    const bool first = &row == &rows.front();
    table.rows.push_back({.what = row.name,
                          .published = row.published,
                          .predicted = unet_rate(net, calibrated, row),
                          .limit = first ? std::nullopt : std::optional(kLimit),
                          .is_calibrated = first,
                          .note = first ? fmt::format("efficiency {:.2f}", share) : ""});
  }
  bool grows = true;
  for (size_t i = 2; i <= kLastOfGrowth; ++i) grows = grows && *table.rows[i].predicted > *table.rows[i - 1].predicted;
  table.claim("pipeline-1 is slower than the baseline (it recomputes)",
              *table.rows[1].predicted < *table.rows[0].predicted);
  table.claim("more GPUs are faster", grows);
  return table;
}

Table resnet101_speed() {
  Table table{
      .title = "torchgpipe: ResNet-101 on ImageNet",
      .source = kSource,
      .quantity = "Images per second",
      .setup =
          "8xp40.cluster.toml; data parallel, and gpipe with the published chunks and balances of modules ([140, 230] "
          "and [26, 22, 33, 44, "
          "44, 66, 66, 69]), all chunks but the last recomputed.",
      .calibrated = "`greatest_efficiency`, on the first row.",
      .decimals = 1,
      .rows = {},
      .claims = {},
      .remarks =
          "torch.nn.DataParallel sends weights and gathers outputs through its first GPU; the simulation has an "
          "all-reduce, as in DDP. "
          "The published row dataparallel-1k names 8 GPUs, but the script published with it uses 4; with 4 GPUs the "
          "published speed "
          "would be 84 % of perfect scaling. A micro-batch has 16 images in pipeline-1k and 64 in pipeline-4k."};
  struct Speed {
    const char* name;
    double published;
    int64_t batch;
    int data, chunks;  // chunks = 0: data parallel
    std::vector<int> balance;
    bool limited = true;
  };
  const std::vector<int> eight{26, 22, 33, 44, 44, 66, 66, 69};
  const std::vector<Speed> rows{{"dataparallel-256, 2 GPUs", 180.344, 256, 2, 0, {}},
                                {"pipeline-256, 2 GPUs", 117.432, 256, 1, 4, kTwoParts},
                                {"dataparallel-1k, 8 GPUs", 606.916, 1024, 8, 0, {}, false},
                                {"dataparallel-1k, 4 GPUs", 606.916, 1024, 4, 0, {}, false},
                                {"pipeline-1k, 8 GPUs", 294.739, 1024, 1, 64, eight},
                                {"pipeline-4k, 8 GPUs", 378.746, 4096, 1, 64, eight}};
  const Model model = resnet101(224, 1000);
  const Cluster cluster = example_cluster("8xp40");
  const auto rate = [&](const Cluster& machine, const Speed& row) {
    const Setting setting{.model = model, .cluster = machine, .batch = row.batch};
    const Plan plan = row.chunks == 0 ? balanced_plan(setting, {.data = row.data, .micro_batches = 1}, "gpipe")
                                      : resnet101_pipeline(setting, row.chunks, row.balance);
    return double(row.batch) / step_seconds(setting, plan);
  };
  const double share =
      solve(0.05, 1, rows.front().published, [&](double s) { return rate(with_efficiency(cluster, s), rows.front()); });
  const Cluster calibrated = with_efficiency(cluster, share);
  for (const Speed& row : rows) {
    const bool first = &row == &rows.front();
    table.rows.push_back({.what = row.name,
                          .published = row.published,
                          .predicted = rate(calibrated, row),
                          .limit = first || !row.limited ? std::nullopt : std::optional(kLimit),
                          .is_calibrated = first,
                          .note = first ? fmt::format("efficiency {:.2f}", share) : ""});
  }
  table.claim("on 2 GPUs the pipeline is slower than data parallel",
              *table.rows[1].predicted < *table.rows[0].predicted);
  table.claim("on 8 GPUs the pipeline is slower than data parallel, too",
              *table.rows[4].predicted < *table.rows[2].predicted);
  table.claim("the pipeline is faster with the larger batch", *table.rows[5].predicted > *table.rows[4].predicted);
  return table;
}

}  // namespace trireme::validation
