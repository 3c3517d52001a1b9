// A comparison of strategies on a desktop with two RTX 3070 ("A Comparative Analysis of Distributed Training
// Strategies").
#include <fmt/format.h>

#include "validation/resnet101.h"
#include "validation/tables.h"

namespace trireme::validation {

Table small_images() {
  Table table{.title = "Small images on two RTX 3070",
              .source = "\"A Comparative Analysis of Distributed Training Strategies\" (student report), 2 x RTX 3070",
              .quantity = "Samples per second",
              .setup =
                  "2xrtx3070.cluster.toml, torchvision's ResNet-101 on images of 32 x 32 with 10 classes. The report "
                  "gives neither model nor "
                  "data set for its numbers. Its set-ups have the names and settings of torchgpipe's ResNet-101 "
                  "benchmark (chunks = 4, balance "
                  "[140, 230]), and its data sets have images of 28 and 32 pixels. With the variant of the first "
                  "layers for small images, the "
                  "published speed would need more than the GPU's peak.",
              .calibrated = "`launch`, on naive-128.",
              .decimals = 0,
              .rows = {},
              .claims = {},
              .remarks =
                  "The launch time represents all that PyTorch does per layer. That is several kernels where the cost "
                  "model counts one operator "
                  "(norm, ReLU and sum, accumulation of gradients)."};
  constexpr double kOne = 2275, kData = 2968, kPipeline = 1528, kLimit = 0.2;
  const Model model = resnet101(32, 10);
  const Cluster cluster = example_cluster("2xrtx3070");
  enum class Kind { one, data, pipeline };
  const auto rate = [&](const Cluster& machine, Kind kind) {
    const Setting setting{.model = model, .cluster = machine, .batch = kind == Kind::one ? 128 : 256};
    const Plan plan = kind == Kind::pipeline
                          ? resnet101_pipeline(setting, 4, kTwoParts)
                          : balanced_plan(setting, {.data = kind == Kind::data ? 2 : 1, .micro_batches = 1}, "gpipe");
    return double(setting.batch) / step_seconds(setting, plan);
  };
  const double launch = solve(1e-6, 500e-6, kOne, [&](double s) { return rate(with_launch(cluster, s), Kind::one); });
  const Cluster calibrated = with_launch(cluster, launch);
  const double one = rate(calibrated, Kind::one), data = rate(calibrated, Kind::data),
               pipeline = rate(calibrated, Kind::pipeline);
  table.rows = {{.what = "naive-128, one GPU",
                 .published = kOne,
                 .predicted = one,
                 .limit = {},
                 .is_calibrated = true,
                 .note = fmt::format("launch {:.0f} us", launch * 1e6)},
                {.what = "dataparallel-256",
                 .published = kData,
                 .predicted = data,
                 .limit = kLimit,
                 .note = fmt::format("{:.2f} x one GPU, published {:.2f}", data / one, kData / kOne)},
                {.what = "gpipe-256, 4 chunks",
                 .published = kPipeline,
                 .predicted = pipeline,
                 .limit = kLimit,
                 .note = fmt::format("{:.2f} x one GPU, published {:.2f}", pipeline / one, kPipeline / kOne)}};
  table.claims = {{"data parallel is faster than one GPU", data > one},
                  {"GPipe is slower than one GPU", pipeline < one}};
  return table;
}

}  // namespace trireme::validation
