// The ranks of a run whose workers are processes; here each rank is a thread with its own communicator.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/local/local_world.h"
#include "train/process_rank.h"

namespace trireme::test_support {

/// Calls `body` for all ranks at once, with the communicators that `connect` makes on their threads. Returns each
/// rank's error, "" if it succeeded.
inline std::vector<std::string> as_ranks(int count,
                                         const std::function<std::unique_ptr<Communicator>(int rank)>& connect,
                                         const std::function<void(const std::shared_ptr<ProcessRank>& process)>& body) {
  std::vector<std::string> ends(static_cast<size_t>(count));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < count; ++rank)
    ranks.emplace_back([&, rank] {
      try {
        body(std::make_shared<ProcessRank>(connect(rank), "gloo"));
      } catch (const std::exception& error) {
        ends[size_t(rank)] = error.what();
      }
    });
  for (std::thread& rank : ranks) rank.join();
  return ends;
}

/// The same within memory.
inline std::vector<std::string> as_ranks(int count,
                                         const std::function<void(const std::shared_ptr<ProcessRank>& process)>& body) {
  LocalWorld world(count);
  world.move_beside_computing();
  return as_ranks(
      count, [&](int rank) { return world.communicator(rank); }, body);
}

}  // namespace trireme::test_support
