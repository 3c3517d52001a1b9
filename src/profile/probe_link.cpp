#include "profile/probe_link.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "base/seconds.h"

namespace trireme {
namespace {

constexpr int64_t kTag = -1;                        // programs use tags from 0 on
constexpr int kEchoes = 3, kMostEchoes = 100;       // per size; the fastest is used
constexpr double kLongEnoughForWork = 5e-3;         // seconds of echoes: other threads of the process work, too
constexpr int64_t kFirstBytes = int64_t{16} << 10;  // 3 ms at 50 Mbit/s
constexpr int64_t kMostBytes = int64_t{4} << 20;
constexpr int64_t kGrowth = 8;
constexpr double kLongEnough = 2e-3;  // seconds: much longer than reading the clock and waking up

/// Of one direction.
struct Echo {
  double seconds = std::numeric_limits<double>::infinity();
  double work = 0;  ///< seconds of a core
};

Echo echo(Communicator& world, int other, int64_t bytes) {
  const at::Tensor message = at::zeros({bytes}, at::kByte);
  Echo result;
  const double work_before = process_seconds(), first = steady_seconds();
  int echoes = 0;
  for (; echoes < kEchoes || (echoes < kMostEchoes && steady_seconds() - first < kLongEnoughForWork); ++echoes) {
    const double begin = steady_seconds();
    world.send(message, other, kTag);
    world.receive(other, kTag);
    result.seconds = std::min(result.seconds, (steady_seconds() - begin) / 2);
  }
  // One message was sent here and one received: as much work as both ends of one message.
  result.work = (process_seconds() - work_before) / echoes;
  return result;
}

LinkEstimate measure(Communicator& world, int other) {
  LinkEstimate link;
  const Echo small = echo(world, other, 1);
  link.latency = small.seconds;
  link.work.of_message = small.work;
  for (int64_t bytes = kFirstBytes;; bytes *= kGrowth) {
    const Echo large = echo(world, other, bytes);
    // A larger message cannot be faster: then the small ones were disturbed.
    link.latency = std::min(link.latency, large.seconds / 2);
    const double seconds = large.seconds - link.latency;
    link.bandwidth = double(bytes) / seconds;
    link.work.of_byte = std::max(0.0, large.work - small.work) / double(bytes);
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
  at::Tensor worst = at::zeros({4}, at::kDouble);  // latency, seconds per byte, work
  double* const values = worst.data_ptr<double>();
  for (const auto& [measures, answers] : pairs) {
    if (world.rank() == answers) answer(world, measures);
    if (world.rank() != measures) continue;
    const LinkEstimate link = measure(world, answers);
    values[0] = link.latency;
    values[1] = 1 / link.bandwidth;
    values[2] = link.work.of_message;
    values[3] = link.work.of_byte;
  }
  world.all_reduce(worst, ReduceOp::max);
  return {values[0], 1 / values[1], {values[2], values[3]}};
}

LinkEstimate probe_links(Communicator& world) {
  std::vector<std::pair<int, int>> neighbours;
  for (int rank = 0; rank + 1 < world.size(); rank += 2) neighbours.emplace_back(rank, rank + 1);
  return probe_links(world, neighbours);
}

}  // namespace trireme
