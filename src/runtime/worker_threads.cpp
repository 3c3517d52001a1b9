#include "runtime/worker_threads.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "base/counted.h"
#include "base/memory.h"
#include "base/threads.h"
#include "trireme/error.h"

namespace trireme {

void run_worker_threads(LocalWorld& world, const std::function<void(int rank)>& body,
                        const std::vector<int>& intra_op_threads, int first_device) {
  if (first_device + world.size() > kMaxDevices)
    fail_user({counted(first_device + world.size(), "worker"), "are too many",
               fmt::format("at most {} can work in one process", kMaxDevices), "use fewer devices"});
  const auto work = [&](int rank) {
    if (!intra_op_threads.empty()) at::set_num_threads(intra_op_threads[size_t(rank)]);
    DeviceScope device(first_device + rank);
    body(rank);
  };
  run_threads(world.size(), "worker", work, [&](const std::string& reason) { world.abort(reason); });
}

}  // namespace trireme
