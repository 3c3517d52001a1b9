#include "profile/measure_links.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "base/devices/device.h"
#include "base/seconds.h"
#include "profile/measured_devices.h"
#include "profile/noise.h"
#include "runtime/worker_threads.h"
#include "tensor/redistribute.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr int64_t kFloat = 4;
constexpr int64_t kSizes[] = {1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 22, 1 << 24};  // bytes
constexpr int64_t kBytesPerRun = 1 << 22;  // small sizes are repeated, at most kMostCalls times
constexpr int64_t kColdBytes = 1 << 26;    // tensors are used in turn, so that caches do not hold the next one
constexpr int kMostSets = 64;
constexpr int kMostCalls = 20, kLinkRuns = 7, kHandOvers = 200, kWakeUps = 15;
constexpr double kSleepSeconds = 2e-3;  // longer than a waiting worker spins
constexpr double kTogetherSeconds = 0.02;

at::Tensor floats(int64_t bytes) {
  at::Tensor values = at::empty({std::max<int64_t>(bytes / kFloat, 1)}, on_worker(at::kFloat));
  fill_with_noise(values, 1e-3);
  return values;
}

/// One worker's tensors for all collectives on `bytes`.
struct Tensors {
  Tensors(int64_t bytes, int workers) : whole(floats(bytes)), part(floats(bytes / workers)) {
    for (int r = 0; r < workers; ++r) {
      parts.push_back(floats(bytes / workers));
      others.push_back(floats(bytes / workers));
    }
  }
  at::Tensor whole, part;
  std::vector<at::Tensor> parts, others;
};

using Operation = std::function<void(Communicator&, Tensors&)>;

/// Sends to a neighbour and back: two messages one after the other.
void exchange(Communicator& group, Tensors& t) {
  const int rank = group.rank(), other = rank ^ 1;
  if (other >= group.size()) return;
  if (rank < other) group.send(t.whole, other, 0);
  const at::Tensor got = group.receive(other, 0);
  if (rank > other) group.send(t.whole, other, 0);
}

const std::vector<std::pair<std::string, Operation>>& operations() {
  static const std::vector<std::pair<std::string, Operation>> all{
      {"all_reduce",
       [](Communicator& g, Tensors& t) { g.all_reduce(t.whole, ReduceOp::max); }},  // a sum would grow without bound
      {"all_gather", [](Communicator& g, Tensors& t) { g.all_gather(t.part, t.parts); }},
      {"reduce_scatter", [](Communicator& g, Tensors& t) { g.reduce_scatter(t.parts, t.part); }},
      {"all_to_all", [](Communicator& g, Tensors& t) { g.all_to_all(t.parts, t.others); }},
      {"broadcast", [](Communicator& g, Tensors& t) { g.broadcast(t.whole, 0); }},
      {"send", exchange}};
  return all;
}

/// Seconds of one call on this worker. All workers call it together; `call` receives the number of the call. If each
/// worker has its own core, only other processes can make a call slower than the fastest few, so the 10th percentile is
/// used. If workers share cores, they slow each other down, so the median is used.
double time_calls(Communicator& group, int calls, bool own_cores, const std::function<void(size_t)>& call) {
  std::vector<double> seconds;
  size_t number = 0;
  call(number++);
  for (int run = 0; run < kLinkRuns; ++run) {
    await_device();
    group.barrier();
    const double begin = steady_seconds();
    for (int c = 0; c < calls; ++c) call(number++);
    await_device();
    seconds.push_back((steady_seconds() - begin) / calls);
  }
  const Spread spread = spread_of(seconds);
  return own_cores ? spread.p10 : spread.median;
}

/// The number of tensors of `bytes` that exceeds the caches.
size_t cold_sets(int64_t bytes) { return size_t(std::clamp<int64_t>(kColdBytes / bytes, 1, kMostSets)); }

int calls_of(int64_t bytes) { return int(std::clamp<int64_t>(kBytesPerRun / bytes, 1, kMostCalls)); }

/// Redistributes tensors as layers do within a step: images in channels_last order, sharded as a channel-wise split
/// leaves them. Results are retained for a while, so that the next result is written to memory that no cache holds.
class Redistributions {
 public:
  Redistributions(int64_t bytes, Communicator& world)
      : world_(world), redistributor_(world, world.rank()), shape_(shape_of_bytes(bytes)) {
    mesh_.tensor = world.size();
    for (int r = 0; r < world.size(); ++r) mesh_.workers.push_back(r);
    const size_t sets = cold_sets(2 * bytes);
    for (size_t i = 0; i < sets; ++i) {
      parts_.push_back(images(layout(Placement::shard(1))));
      summands_.push_back(images(layout(Placement::partial())));
    }
    results_.resize(sets);
  }

  void run(RedistributionKind kind, size_t number) {
    const size_t set = number % results_.size();
    switch (kind) {
      case RedistributionKind::all_gather: return move(parts_[set], Placement::shard(1), Placement::replicate(), set);
      case RedistributionKind::all_to_all: return move(parts_[set], Placement::shard(1), Placement::shard(2), set);
      case RedistributionKind::reduce_scatter:
        return move(summands_[set], Placement::partial(), Placement::shard(1), set);
      default: return move(summands_[set], Placement::partial(), Placement::replicate(), set);
    }
  }

 private:
  static constexpr int64_t kChannels = 64, kPixels = 16;

  static Shape shape_of_bytes(int64_t bytes) {
    return {std::max<int64_t>(bytes / (kFloat * kChannels * kPixels * kPixels), 1), kChannels, kPixels, kPixels};
  }
  Layout layout(const Placement& placement) const { return {mesh_, Placement::replicate(), placement}; }
  at::Tensor images(const Layout& at) const {
    at::Tensor values =
        at::empty(shape_of(at.box_of(world_.rank(), shape_)), on_worker(at::kFloat), at::MemoryFormat::ChannelsLast);
    fill_with_noise(values, 1e-3);
    return values;
  }
  void move(const at::Tensor& local, const Placement& from, const Placement& to, size_t set) {
    results_[set] = redistributor_.run(local, layout(from), layout(to), shape_, 0);
  }

  Communicator& world_;
  Redistributor redistributor_;
  const Shape shape_;
  Mesh mesh_;
  std::vector<at::Tensor> parts_, summands_, results_;
};

constexpr RedistributionKind kRedistributions[] = {RedistributionKind::all_reduce, RedistributionKind::all_gather,
                                                   RedistributionKind::reduce_scatter, RedistributionKind::all_to_all};
constexpr int64_t kLeastImages = 1 << 16;                          // bytes of one image
constexpr int64_t kSmallImages = 1 << 18, kLargeImages = 1 << 22;  // between processes
constexpr double kSecondsOfCalls = 0.1;
constexpr double kSlowNetwork = 5e-3;  // seconds of a redistribution of small images

GroupMeasurement measure_group(int workers) {
  GroupMeasurement result;
  result.workers = workers;
  std::map<std::string, std::vector<std::pair<double, double>>> points;
  const bool own_cores = workers <= measured_devices().count;
  LocalWorld world(workers);
  run_worker_threads(world, [&](int rank) {
    c10::InferenceMode inference;
    const auto group = world.communicator(rank);
    const auto note = [&](const std::string& name, int64_t bytes, double seconds) {
      if (rank == 0) points[name].emplace_back(double(bytes), seconds);
    };
    const double barrier = time_calls(*group, kMostCalls, own_cores, [&](size_t) { group->barrier(); });
    if (rank == 0) result.barrier = barrier;
    for (int64_t bytes : kSizes) {
      std::vector<Tensors> sets;
      while (sets.size() < cold_sets(2 * bytes)) sets.emplace_back(bytes, workers);
      for (const auto& [name, call] : operations()) {
        const Operation& operation = call;  // clang 14 cannot capture a structured binding
        const double seconds =
            time_calls(*group, calls_of(bytes), own_cores, [&](size_t n) { operation(*group, sets[n % sets.size()]); });
        note(name, bytes, seconds / (name == "send" ? 2 : 1));
      }
    }
    for (int64_t bytes : kSizes) {
      if (bytes < kLeastImages) continue;
      Redistributions images(bytes, *group);
      for (RedistributionKind kind : kRedistributions)
        note(redistribution_line(kind), bytes,
             time_calls(*group, calls_of(bytes), own_cores, [&](size_t n) { images.run(kind, n); }));
    }
  });
  for (const auto& [name, measured] : points) result.lines[name] = fit_line(measured);
  return result;
}

/// The time and the work of one redistribution, each on the rank where it is greatest.
struct Redistributed {
  double seconds = 0, work = 0;
};

Redistributed redistributed(Communicator& world, RedistributionKind kind, int64_t bytes) {
  Redistributions images(bytes, world);
  const double first = steady_seconds();
  images.run(kind, 0);
  at::Tensor longest = at::tensor({steady_seconds() - first}, at::kDouble);
  world.all_reduce(longest, ReduceOp::max);
  const int calls = int(std::clamp(kSecondsOfCalls / longest.item<double>(), 1.0, double(kLinkRuns * calls_of(bytes))));
  world.barrier();
  const double begin = steady_seconds(), work_before = process_seconds();
  for (int c = 1; c <= calls; ++c) images.run(kind, size_t(c));
  at::Tensor most = at::tensor({steady_seconds() - begin, process_seconds() - work_before}, at::kDouble);
  world.all_reduce(most, ReduceOp::max);
  const double* const values = most.data_ptr<double>();
  return {values[0] / calls, values[1] / calls};
}

void measure_hand_over(LinkMeasurement& links) {
  LocalWorld world(2);
  std::vector<double> hand_overs, wake_ups(kWakeUps);
  std::vector<double> sent(kWakeUps);
  run_worker_threads(world, [&](int rank) {
    c10::InferenceMode inference;
    const auto group = world.communicator(rank);
    Tensors nothing(0, 2);
    for (int run = 0; run < kHandOvers; ++run) {
      group->barrier();
      const double begin = steady_seconds();
      exchange(*group, nothing);
      if (rank == 0) hand_overs.push_back((steady_seconds() - begin) / 2);
    }
    for (size_t run = 0; run < size_t(kWakeUps); ++run) {
      group->barrier();
      if (rank == 1) {
        group->receive(0, 1);
        wake_ups[run] = steady_seconds() - sent[run];  // the receipt of the message orders the read of `sent` after its
                                                       // write
        continue;
      }
      std::this_thread::sleep_for(std::chrono::duration<double>(kSleepSeconds));
      sent[run] = steady_seconds();
      group->send(nothing.whole, 1, 1);
    }
  });
  links.hand_over = spread_of(hand_overs).p10;
  links.wake_up = spread_of(wake_ups).median;
}

/// Runs all bodies at the same time, one per rank. Returns the calls per second of each: the median over a few periods.
std::vector<double> rates_of(const std::vector<std::function<void()>>& bodies) {
  LocalWorld world(int(bodies.size()));
  std::vector<double> rates(bodies.size());
  run_worker_threads(world, [&](int rank) {
    c10::InferenceMode inference;
    const auto group = world.communicator(rank);
    bodies[size_t(rank)]();
    group->barrier();
    std::vector<double> seconds;  // per call
    for (int stretch = 0; stretch < kLinkRuns; ++stretch) {
      const double begin = steady_seconds();
      int calls = 0;
      do {
        bodies[size_t(rank)]();
        ++calls;
      } while (steady_seconds() - begin < kTogetherSeconds);
      seconds.push_back((steady_seconds() - begin) / calls);
    }
    rates[size_t(rank)] = 1 / spread_of(seconds).median;
  });
  return rates;
}

/// Measures the mutual slowdown of a worker that moves tensors (copies) and one that computes.
void measure_overlap(LinkMeasurement& links) {
  constexpr int64_t kImages = 2, kChannels = 64, kPixels = 32, kFilter = 3, kMoved = 1 << 22;
  at::Tensor images = at::empty({kImages, kChannels, kPixels, kPixels}, at::kFloat, at::MemoryFormat::ChannelsLast);
  at::Tensor filters = at::empty({kChannels, kChannels, kFilter, kFilter}, at::kFloat, at::MemoryFormat::ChannelsLast);
  fill_with_noise(images);
  fill_with_noise(filters, 0.1);
  const at::Tensor from = floats(kMoved);
  at::Tensor to = floats(kMoved);
  const auto compute = [&] { at::conv2d(images, filters, {}, 1, 1); };
  const auto move = [&] { to.copy_(from); };
  const double computing = rates_of({compute})[0], moving = rates_of({move})[0];
  const std::vector<double> both = rates_of({compute, move});
  links.compute_slowdown = std::max(1.0, computing / both[0]);
  links.transfer_slowdown = std::max(1.0, moving / both[1]);
}

/// Makes seconds ascend with bytes: neighbours in the wrong order both get their mean (pool adjacent violators).
std::vector<std::pair<double, double>> ascending(const std::vector<std::pair<double, double>>& points) {
  struct Run {
    double sum;
    int count;
    double mean() const { return sum / count; }
  };
  std::vector<Run> runs;
  for (const auto& [x, y] : points) {
    runs.push_back({y, 1});
    while (runs.size() > 1 && runs[runs.size() - 2].mean() > runs.back().mean()) {
      const Run last = runs.back();
      runs.pop_back();
      runs.back().sum += last.sum;
      runs.back().count += last.count;
    }
  }
  std::vector<std::pair<double, double>> result;
  for (const Run& run : runs)
    for (int i = 0; i < run.count; ++i) result.emplace_back(points[result.size()].first, run.mean());
  return result;
}

}  // namespace

TransferLine fit_line(const std::vector<std::pair<double, double>>& points) {
  check_internal(points.size() >= 2, "a line is fitted to at least two points");
  // The best line goes through two points, or through one point if a coefficient would be negative. All candidates are
  // tried.
  std::vector<TransferLine> candidates;
  for (size_t i = 0; i < points.size(); ++i) {
    const auto& [x, y] = points[i];
    candidates.push_back({y, 0, 0, {}});
    if (x > 0) candidates.push_back({0, x / y, 0, {}});
    for (size_t j = 0; j < i; ++j) {
      const double slope = (y - points[j].second) / (x - points[j].first), latency = y - slope * x;
      if (slope > 0 && latency >= 0) candidates.push_back({latency, 1 / slope, 0, {}});
    }
  }
  const auto distance = [&](const TransferLine& line) {
    double sum = 0;
    for (const auto& [x, y] : points) sum += std::abs(std::log(std::max(line.on_line(x), 1e-12) / y));
    return sum;
  };
  TransferLine best =
      *std::min_element(candidates.begin(), candidates.end(),
                        [&](const TransferLine& a, const TransferLine& b) { return distance(a) < distance(b); });
  for (const auto& [x, y] : points) best.worst = std::max(best.worst, std::abs(best.on_line(x) / y - 1));
  best.points = ascending(points);
  return best;
}

RedistributionWork measure_redistributions(Communicator& world) {
  c10::InferenceMode inference;
  RedistributionWork work{world.size()};
  for (const RedistributionKind kind : kRedistributions) {
    const Redistributed small = redistributed(world, kind, kSmallImages);
    TransferWork& of_kind = work.of[kind];
    of_kind.of_byte = small.work / double(kSmallImages);
    if (small.seconds > kSlowNetwork) continue;
    const Redistributed large = redistributed(world, kind, kLargeImages);
    of_kind.of_byte = std::max(0.0, large.work - small.work) / double(kLargeImages - kSmallImages);
    of_kind.of_message = std::max(0.0, small.work - of_kind.of_byte * double(kSmallImages));
  }
  return work;
}

LinkMeasurement measure_links(const std::vector<int>& workers) {
  LinkMeasurement links;
  for (int count : workers) links.groups.push_back(measure_group(count));
  measure_hand_over(links);
  const MeasuredDevices devices = measured_devices();
  if (devices.count > 1 && devices.gpus == 0) measure_overlap(links);  // work on a GPU is on one stream
  return links;
}

}  // namespace trireme
