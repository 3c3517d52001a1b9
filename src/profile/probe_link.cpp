#include "profile/probe_link.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "base/seconds.h"

namespace trireme {
namespace {

constexpr int64_t kTag = -1;                        // programs use tags from 0 on
constexpr int kEchoes = 3;                          // per size; the fastest is used
constexpr int64_t kFirstBytes = int64_t{16} << 10;  // 3 ms at 50 Mbit/s
constexpr int64_t kMostBytes = int64_t{4} << 20;
constexpr int64_t kGrowth = 8;
constexpr double kLongEnough = 2e-3;  // seconds: much longer than reading the clock and waking up

/// Seconds of one direction.
double echo(Communicator& world, int other, int64_t bytes) {
  const at::Tensor message = at::zeros({bytes}, at::kByte);
  double least = std::numeric_limits<double>::infinity();
  for (int k = 0; k < kEchoes; ++k) {
    const double begin = steady_seconds();
    world.send(message, other, kTag);
    world.receive(other, kTag);
    least = std::min(least, (steady_seconds() - begin) / 2);
  }
  return least;
}

LinkEstimate measure(Communicator& world, int other) {
  LinkEstimate link;
  link.latency = echo(world, other, 1);
  for (int64_t bytes = kFirstBytes;; bytes *= kGrowth) {
    const double seconds = echo(world, other, bytes) - link.latency;
    link.bandwidth = double(bytes) / std::max(seconds, 1e-9);
    if (seconds > kLongEnough || bytes * kGrowth > kMostBytes) break;
  }
  world.send(at::empty({0}, at::kByte), other, kTag);  // an empty message ends the echo
  return link;
}

void answer(Communicator& world, int other) {
  while (true) {
    const at::Tensor message = world.receive(other, kTag);
    if (message.numel() == 0) return;
    world.send(message, other, kTag);
  }
}

}  // namespace

LinkEstimate probe_links(Communicator& world, const std::vector<std::pair<int, int>>& pairs) {
  if (pairs.empty()) return {};
  at::Tensor worst = at::zeros({2}, at::kDouble);  // latency, seconds per byte
  for (const auto& [measures, answers] : pairs) {
    if (world.rank() == answers) answer(world, measures);
    if (world.rank() != measures) continue;
    const LinkEstimate link = measure(world, answers);
    worst.data_ptr<double>()[0] = link.latency;
    worst.data_ptr<double>()[1] = 1 / link.bandwidth;
  }
  world.all_reduce(worst, ReduceOp::max);
  return {worst.data_ptr<double>()[0], 1 / worst.data_ptr<double>()[1]};
}

LinkEstimate probe_links(Communicator& world) {
  std::vector<std::pair<int, int>> neighbours;
  for (int rank = 0; rank + 1 < world.size(); rank += 2) neighbours.emplace_back(rank, rank + 1);
  return probe_links(world, neighbours);
}

}  // namespace trireme
