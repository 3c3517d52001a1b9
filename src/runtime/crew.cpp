#include "runtime/crew.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/memory.h"

namespace trireme {

void run_crew(LocalWorld& world, const std::function<void(int rank)>& body, const std::vector<int>& intra_op_threads, int first_device) {
  if (first_device + world.size() > kMaxDevices)
    fail_user({fmt::format("{} workers", first_device + world.size()), "are too many", fmt::format("at most {} can work in one process", kMaxDevices),
               "use fewer devices"});
  std::mutex mutex;
  std::exception_ptr first, cause;
  auto work = [&](int rank) {
    // a thread's first parallel operator would set its number to the last one set by any thread, unless this has happened already
    at::get_num_threads();
    // two OpenMP threads with a neighbour busy spin at their barriers: one per worker is robust
    at::set_num_threads(intra_op_threads.empty() ? 1 : intra_op_threads[size_t(rank)]);
    DeviceScope device(first_device + rank);
    try {
      body(rank);
    } catch (const std::exception& error) {
      {
        std::lock_guard lock(mutex);  // whoever failed may have stopped the others before it gets here
        if (!first) first = std::current_exception();
        if (!cause && !dynamic_cast<const StoppedError*>(&error)) cause = std::current_exception();
      }
      world.abort("worker " + std::to_string(rank) + " failed: " + first_line(error));
    }
  };
  std::vector<std::thread> threads;
  try {
    for (int rank = 0; rank < world.size(); ++rank) threads.emplace_back(work, rank);
  } catch (const std::system_error& error) {  // those that run would wait for the rest for ever
    world.abort("not all worker threads could be started");
    for (std::thread& thread : threads) thread.join();
    fail_run({fmt::format("{} workers", world.size()), fmt::format("only {} threads could be started", threads.size()),
              first_line(error), "use fewer workers or raise the system's limits"});
  }
  for (std::thread& thread : threads) thread.join();
  if (cause) std::rethrow_exception(cause);
  if (first) std::rethrow_exception(first);
}

}  // namespace trireme
