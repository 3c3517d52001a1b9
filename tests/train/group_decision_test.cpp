// GroupDecision: all workers read the same decision, even late readers.
#include "train/agreement/group_decision.h"

#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <thread>
#include <vector>

namespace trireme::test_support {
namespace {

constexpr int kWorkers = 3, kDecisions = 200;

bool decided(int decision) { return decision % 3 == 0; }

/// Rank 0 continues at once; the other ranks sleep between the barrier and their read.
TEST(GroupDecision, ALateReaderReadsItsOwnDecision) {
  GroupDecision decision(kWorkers);
  std::barrier all(kWorkers);
  std::vector<std::vector<char>> read(kWorkers);
  std::vector<std::jthread> workers;
  workers.reserve(kWorkers);
  for (int rank = 0; rank < kWorkers; ++rank)
    workers.emplace_back([&, rank] {
      for (int k = 0; k < kDecisions; ++k)
        read[size_t(rank)].push_back(decision.take(
            rank, [k] { return decided(k); },
            [&] {
              all.arrive_and_wait();
              if (rank > 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
            }));
    });
  workers.clear();
  for (int rank = 0; rank < kWorkers; ++rank)
    for (int k = 0; k < kDecisions; ++k) EXPECT_EQ(bool(read[size_t(rank)][size_t(k)]), decided(k)) << rank << ' ' << k;
}

}  // namespace
}  // namespace trireme::test_support
