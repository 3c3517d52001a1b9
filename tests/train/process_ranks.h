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

/// Calls `body` for all ranks at once. Returns each rank's error, "" if it succeeded.
inline std::vector<std::string> as_ranks(int count,
                                         const std::function<void(const std::shared_ptr<ProcessRank>& process)>& body) {
  LocalWorld world(count);
  world.move_beside_computing();
  std::vector<std::string> ends(static_cast<size_t>(count));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < count; ++rank)
    ranks.emplace_back([&, rank] {
      try {
        body(std::make_shared<ProcessRank>(world.communicator(rank), "gloo"));
      } catch (const std::exception& error) {
        ends[size_t(rank)] = error.what();
      }
    });
  for (std::thread& rank : ranks) rank.join();
  return ends;
}

}  // namespace trireme::test_support
