#include "profile/measure_updates.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "base/devices/core_speed.h"
#include "base/devices/device.h"
#include "base/devices/gpu.h"
#include "base/infinity.h"
#include "base/seconds.h"
#include "profile/measured_devices.h"
#include "profile/noise.h"
#include "runtime/worker_threads.h"

namespace trireme {
namespace {

constexpr int64_t kSmall = 1 << 12, kLarge = 1 << 22;  // elements; large: not in any cache, as after a backward
constexpr int64_t kLargeOnGpus = 1 << 23;              // more than an L2 cache, with its gradient and its state
constexpr int kUpdateRuns = 7;

/// A worker's slice and the tensors that its update reads.
class UpdatePass {
 public:
  UpdatePass(const OptimizerConfig& optimizer, Precision precision, int contributors, int64_t elements)
      : optimizer_(optimizer) {
    const auto master = on_worker(master_type(precision));
    master_ = noise(elements, master);
    if (precision == Precision::bf16) compute_ = at::zeros({elements}, on_worker(at::kBFloat16));
    for (int c = 0; c < contributors; ++c) gradients_.push_back(noise(elements, master));
    state_ = make_optimizer_state(optimizer, elements, master);
    // Values as a training step leaves them.
    for (at::Tensor& state : state_) state.fill_(1e-3);
  }

  double run() {
    SliceUpdate update;
    update.slice = {0, master_.numel()};
    update.gradients = gradients_;
    update.master = &master_;
    update.compute = compute_.defined() ? &compute_ : nullptr;
    update.state = state_;
    update.learning_rate = 1e-6;
    update.step = ++step_;
    await_device();
    const DeviceMoment begin;
    if (optimizer_.is_layerwise()) measure_slice(optimizer_, update);
    update_slice(optimizer_, update);
    return DeviceMoment().seconds_since(begin);
  }

 private:
  static at::Tensor noise(int64_t elements, const at::TensorOptions& options) {
    at::Tensor values = at::empty({elements}, options);
    fill_with_noise(values, 1e-3);
    return values;
  }

  const OptimizerConfig optimizer_;
  at::Tensor master_, compute_;
  std::vector<at::Tensor> gradients_, state_;
  int64_t step_ = 0;
};

/// Seconds of a pass that runs on `workers` threads at once: the 10th percentile, because only other processes make a
/// pass slower.
double seconds_of(const OptimizerConfig& optimizer, Precision precision, int contributors, int64_t elements,
                  int workers, int threads) {
  LocalWorld world(workers);
  std::vector<std::vector<double>> seconds(static_cast<size_t>(workers));
  run_worker_threads(
      world,
      [&](int rank) {
        c10::InferenceMode inference;
        UpdatePass pass(optimizer, precision, contributors, elements);
        const auto communicator = world.communicator(rank);
        pass.run();
        for (int r = 0; r < kUpdateRuns; ++r) {
          communicator->barrier();
          seconds[size_t(rank)].push_back(pass.run());
        }
      },
      std::vector<int>(size_t(workers), threads));
  std::vector<double> all;
  for (const auto& of_rank : seconds) all.insert(all.end(), of_rank.begin(), of_rank.end());
  return spread_of(all).p10;
}

}  // namespace

std::string update_name(const OptimizerConfig& optimizer, Precision precision) {
  std::string name = optimizer.kind->name;
  if (optimizer.momentum > 0) name += " momentum";
  if (optimizer.centered) name += " centered";
  if (optimizer.ema > 0) name += " ema";
  return name + " " + name_of(precision);
}

std::vector<UpdateMeasurement> measure_updates(const OptimizerConfig& optimizer, Precision precision,
                                               const std::vector<int>& contributors, int threads) {
  const MeasuredDevices devices = measured_devices();
  const int64_t many = devices.gpus > 0 ? kLargeOnGpus : kLarge;
  std::vector<UpdateMeasurement> result;
  for (int c : contributors) {
    const double small = seconds_of(optimizer, precision, c, kSmall, 1, threads),
                 large = seconds_of(optimizer, precision, c, many, 1, threads);
    UpdateMeasurement& u = result.emplace_back();
    u.optimizer = update_name(optimizer, precision);
    u.contributors = c;
    u.per_element = std::max(large - small, 0.0) / double(many - kSmall);
    u.fixed = std::max(small - u.per_element * double(kSmall), 0.0);
    if (devices.count > 1)
      u.crowding = std::max(1.0, seconds_of(optimizer, precision, c, many, devices.count, threads) / large);
  }
  return result;
}

double measure_core() {
  constexpr double kSeconds = 0.4;
  if (measured_devices().gpus > 0) return 0;
  CoreSpeed speed(0);
  double fastest = kInfinity;
  const double begin = steady_seconds();
  for (double now = begin; now - begin < kSeconds; now = steady_seconds()) {
    speed.measure(now);
    fastest = std::min(fastest, speed.take().mean().value_or(kInfinity));
  }
  return fastest;
}

DeviceMeasurement measure_device(int threads) {
  constexpr int64_t kChannels = 64, kPixels = 32, kFilter = 3;
  const MeasuredDevices devices = measured_devices();
  const int64_t count = devices.gpus > 0 ? 256 : 4;  // of images: a GPU computes many at once
  const double flops = 2.0 * double(count) * kChannels * kChannels * kPixels * kPixels * kFilter * kFilter;
  std::vector<double> seconds;
  LocalWorld world(1);
  run_worker_threads(world,
                     [&](int) {
                       c10::InferenceMode inference;
                       at::Tensor images = at::empty({count, kChannels, kPixels, kPixels}, on_worker(at::kFloat),
                                                     at::MemoryFormat::ChannelsLast);
                       at::Tensor filters = at::empty({kChannels, kChannels, kFilter, kFilter}, on_worker(at::kFloat),
                                                      at::MemoryFormat::ChannelsLast);
                       fill_with_noise(images);
                       fill_with_noise(filters, 0.1);
                       for (int r = 0; r <= kUpdateRuns; ++r) {
                         const DeviceMoment begin;
                         at::conv2d(images, filters, {}, 1, 1);
                         const double taken = DeviceMoment().seconds_since(begin);
                         if (r > 0) seconds.push_back(taken);
                       }
                     },
                     {threads});
  return {.memory = devices.memory,
          .flops = flops / spread_of(seconds).median,
          .library_memory = devices.gpus > 0 ? library_memory_bytes() : 0};
}

}  // namespace trireme
