// Horovod: Sergeev and Del Balso, "Horovod: fast and easy distributed deep learning in TensorFlow", 2018, and its
// benchmarks.
#include <fmt/format.h>

#include <algorithm>

#include "validation/simulated.h"
#include "validation/tables.h"
#include "zoo/zoo.h"

namespace trireme::validation {

namespace {

constexpr int kServers = 128, kPerServer = 4;
constexpr int64_t kPerGpu = 64;
constexpr double kLimit = 0.1;

struct Published {
  const char* model;
  int64_t side;
  double share;              ///< of perfect scaling
  double images_per_second;  ///< of one P100 with 64 images
};

Cluster horovod_cluster() {
  Cluster cluster = example_cluster("8xp100-pcie");
  cluster.devices.assign(kServers * kPerServer, cluster.devices.front());
  for (int d = 0; d < cluster.size(); ++d) cluster.devices[size_t(d)].node = d / kPerServer;
  cluster.nodes.assign(kServers, cluster.nodes.front());
  cluster.network = {.bandwidth = 25e9 / 8, .latency = 10e-6, .shared = true};
  return cluster;
}

Model image_model(const std::string& name, int64_t side) {
  ModelSpec spec;
  spec.name = name;
  spec.sample_shape = {3, side, side};
  spec.classes = 1000;
  return make_model(spec);
}

double data_seconds(const Model& model, const Cluster& cluster, int devices) {
  const Setting setting{
      .model = model, .cluster = cluster, .batch = kPerGpu * devices, .library = {.flat_rings = true}};
  return step_seconds(setting, balanced_plan(setting, {.data = devices, .micro_batches = 1}, "gpipe"));
}

/// The efficiency that gives the published speed of one GPU; above 1 if an algorithm saves multiplications.
double efficiency_of(const Model& model, const Cluster& cluster, double images_per_second) {
  return solve(0.1, 3, images_per_second,
               [&](double s) { return double(kPerGpu) / data_seconds(model, with_efficiency(cluster, s), 1); });
}

}  // namespace

Table horovod_scaling() {
  Table table{.title = "Horovod: 512 GPUs",
              .source = "Sergeev and Del Balso, 2018, 128 servers with 4 Pascal GPUs, 25 Gbit/s RoCE",
              .quantity = "Share of perfect scaling that data parallel reaches",
              .setup =
                  "8xp100-pcie.cluster.toml with 4 GPUs per server and 25 Gbit/s (10 us) between servers, batch 64 per "
                  "GPU. An all-reduce is one "
                  "ring through all 512 GPUs, as in NCCL of that time (trees came with version 2.4, in 2019).",
              .calibrated =
                  "`greatest_efficiency`, for each network on the published speed of one P100 (142, 219 and 154 "
                  "images/s for Inception-V3, "
                  "ResNet-50 and VGG-16 with 64 images; TensorFlow's benchmarks of May 2017). No row of this table is "
                  "used for calibration. "
                  "ResNet-101 has the value of ResNet-50.",
              .rows = {},
              .claims = {},
              .remarks =
                  "An efficiency above 1 means that 3x3 convolutions saved multiplications (Winograd's algorithm). A "
                  "ring of 512 GPUs waits for "
                  "the network's latency 1022 times per bucket."};
  const Cluster cluster = horovod_cluster();
  for (const Published& p : {Published{"inception-v3", 299, 0.90, 142}, Published{"resnet101", 224, 0.90, 219},
                             Published{"vgg16", 224, 0.68, 154}}) {
    const Model model = image_model(p.model, p.side);
    const std::string measured = p.model == std::string("resnet101") ? "resnet50" : p.model;
    const double share = efficiency_of(image_model(measured, p.side), cluster, p.images_per_second);
    const Cluster calibrated = with_efficiency(cluster, share);
    table.rows.push_back(
        {.what = p.model,
         .published = p.share,
         .predicted = data_seconds(model, calibrated, 1) / data_seconds(model, calibrated, cluster.size()),
         .limit = kLimit,
         .note = fmt::format("efficiency {:.2f}", share)});
  }
  table.claim("VGG-16 scales worst",
              *table.rows[2].predicted < std::min(*table.rows[0].predicted, *table.rows[1].predicted));
  return table;
}

}  // namespace trireme::validation
