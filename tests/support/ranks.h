// Runs one function per rank, each on its own thread, in a local world.
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/local/local_world.h"
#include "trireme/communicator.h"

namespace trireme::test_support {

/// Calls `body(communicator)` for all ranks of the world at once and joins them. A rank that throws aborts the world,
/// so that the others end too; this function throws the first exception again. `body` may use GoogleTest's EXPECT
/// macros.
template <class Body>
void run_ranks(LocalWorld& world, Body body) {
  const int n = world.size();
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank) {
    threads.emplace_back([&, rank] {
      const std::unique_ptr<Communicator> communicator = world.communicator(rank);
      try {
        body(*communicator);
      } catch (const std::exception& error) {
        {
          std::lock_guard lock(mutex);
          if (!first) first = std::current_exception();
        }
        world.abort(error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

template <class Body>
void run_ranks(int n, Body body) {
  LocalWorld world(n);
  run_ranks(world, body);
}

}  // namespace trireme::test_support
