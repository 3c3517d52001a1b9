// Horovod: Sergeev and Del Balso, "Horovod: fast and easy distributed deep learning in TensorFlow", 2018, and its benchmarks.
#include <fmt/format.h>

#include "validation/simulated.h"
#include "validation/tables.h"
#include "zoo/zoo.h"

namespace trireme::validation {

Table horovod_scaling() {
  constexpr int kServers = 128, kPerServer = 4;
  constexpr int64_t kPerGpu = 64;
  constexpr double kGate = 0.1;
  Table table{.title = "Horovod: 512 GPUs", .source = "Sergeev and Del Balso, 2018, 128 servers with 4 Pascal GPUs, 25 Gbit/s RoCE",
              .quantity = "Share of perfect scaling that data parallel reaches",
              .setup = "8xp100-pcie.cluster.toml with 4 GPUs per server and 25 Gbit/s (10 us) between servers, batch 64 per GPU.",
              .calibrated = "nothing.", .rows = {}, .claims = {},
              .remarks =
          "VGG-16 does not come out: 0.55 GB of gradients hide behind a backward that the datasheet takes for longer than it is "
          "(Winograd's 3x3 convolutions exceed the peak that it charges), and the network is taken to reach its line rate."};
  Cluster cluster = example_cluster("8xp100-pcie");
  cluster.devices.assign(kServers * kPerServer, cluster.devices.front());
  for (int d = 0; d < cluster.size(); ++d) cluster.devices[size_t(d)].node = d / kPerServer;
  cluster.nodes.assign(kServers, cluster.nodes.front());
  cluster.network = {.bandwidth = 25e9 / 8, .latency = 10e-6, .shared = true};
  struct Published {
    const char* model;
    int64_t side;
    double share;
    std::optional<double> gate;
  };
  for (const Published& p :
       {Published{"inception-v3", 299, 0.90, kGate}, Published{"resnet101", 224, 0.90, kGate}, Published{"vgg16", 224, 0.68, {}}}) {
    ModelSpec spec;
    spec.name = p.model;
    spec.sample_shape = {3, p.side, p.side};
    spec.classes = 1000;
    const Model model = make_model(spec);
    const auto seconds = [&](int devices) {
      const Setting setting{.model = model, .cluster = cluster, .batch = kPerGpu * devices};
      return step_seconds(setting, balanced_plan(setting, {.data = devices, .micro_batches = 1}, "gpipe"));
    };
    table.rows.push_back(
        {.what = p.model, .published = p.share, .predicted = seconds(1) / seconds(cluster.size()), .gate = p.gate, .note = {}});
  }
  return table;
}

}  // namespace trireme::validation
