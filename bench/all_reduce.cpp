// Local all-reduce of two threads, compared with a plain memory copy of the same size.
//
// bench_all_reduce [rounds]: lines "name bytes seconds_min seconds_median" for local, copy1 (memcpy by one thread) and
// copy2 (two threads, half each). Repetitions of the three alternate, so that other programs disturb them equally.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/local/local_world.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRanks = 2;
constexpr int64_t kBytes[] = {4'000, 1'000'000, 25'000'000, 100'000'000};
constexpr double kMeasuredSeconds = 0.05;  // for one method at one size in one round

struct Buffers {
  at::Tensor from, to;  // the buffers of one rank
};

/// Runs one repetition; the first rank measures its seconds. Both ranks start each repetition together.
using Body = std::function<void(trireme::Communicator&, Buffers&)>;

std::vector<double> measure(const Body& body, std::vector<Buffers>& buffers, int repetitions) {
  trireme::LocalWorld world(kRanks);
  std::vector<double> seconds;
  const auto run = [&](int rank) {
    at::set_num_threads(1);
    const auto communicator = world.communicator(rank);
    for (int i = 0; i <= repetitions; ++i) {
      communicator->barrier();
      const Clock::time_point start = Clock::now();
      body(*communicator, buffers[rank]);
      if (rank == 0 && i > 0) seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  return seconds;
}

void copy(const at::Tensor& from, at::Tensor& to, int64_t begin, int64_t end) {
  std::memcpy(static_cast<char*>(to.data_ptr()) + begin, static_cast<const char*>(from.data_ptr()) + begin,
              end - begin);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 5;
  for (const int64_t bytes : kBytes) {
    std::vector<Buffers> buffers;
    for (int r = 0; r < kRanks; ++r) buffers.push_back({at::ones({bytes / 4}), at::ones({bytes / 4})});
    const Buffers& shared = buffers[0];
    const std::pair<std::string, Body> methods[] = {
        {"local", [](trireme::Communicator& c, Buffers& b) { c.all_reduce(b.from); }},
        {"copy1",
         [&](trireme::Communicator& c, Buffers& b) {
           if (c.rank() == 0) copy(b.from, b.to, 0, bytes);
         }},
        {"copy2",
         [&](trireme::Communicator& c, Buffers&) {
           at::Tensor to = shared.to;
           copy(shared.from, to, bytes / 2 * c.rank(), bytes / 2 * (c.rank() + 1));
           c.barrier();
         }},
    };
    std::map<std::string, std::vector<double>> seconds;
    for (int round = 0; round < rounds; ++round) {
      for (const auto& [name, body] : methods) {
        for (Buffers& b : buffers) b.from.fill_(0);  // zeros, so that sums stay small; overflow would be slow
        const int repetitions = std::clamp(static_cast<int>(kMeasuredSeconds / (bytes / 10e9 + 2e-6)), 3, 5000);
        const std::vector<double> times = measure(body, buffers, repetitions);
        seconds[name].insert(seconds[name].end(), times.begin(), times.end());
      }
    }
    for (auto& [name, times] : seconds) {
      std::sort(times.begin(), times.end());
      fmt::print("{} {} {:.9f} {:.9f}\n", name, bytes, times.front(), times[times.size() / 2]);
    }
  }
}
