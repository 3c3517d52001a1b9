#include "base/threads.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <exception>
#include <system_error>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/text.h"
#include "trireme/error.h"

namespace trireme {

void run_threads(int count, const std::string& one, const std::function<void(int)>& work,
                 const std::function<void(const std::string& reason)>& abort) {
  Mutex mutex;
  std::exception_ptr first, cause;
  const auto run = [&](int i) {
    // otherwise the thread's first parallel operator takes the number that any thread has set last
    at::get_num_threads();
    // with two OpenMP threads each, busy neighbours spin at their barriers; one thread each avoids this
    at::set_num_threads(1);
    try {
      work(i);
    } catch (const std::exception& error) {
      {
        const MutexLock lock(mutex);  // the failed thread may have stopped the others before it arrives here
        if (!first) first = std::current_exception();
        if (!cause && !dynamic_cast<const StoppedError*>(&error)) cause = std::current_exception();
      }
      abort(fmt::format("{} {} failed: {}", one, i, first_line(error)));
    }
  };
  std::vector<std::thread> threads;
  try {
    for (int i = 0; i < count; ++i) threads.emplace_back(run, i);
  } catch (const std::system_error& error) {  // the running threads would wait for the missing ones for ever
    abort(fmt::format("not all {} threads could be started", one));
    for (std::thread& thread : threads) thread.join();
    fail_run({fmt::format("{} {}s", count, one), fmt::format("only {} threads could be started", threads.size()),
              first_line(error), fmt::format("use fewer {}s or raise the system's limits", one)});
  }
  for (std::thread& thread : threads) thread.join();
  if (cause) std::rethrow_exception(cause);
  if (first) std::rethrow_exception(first);
}

}  // namespace trireme
