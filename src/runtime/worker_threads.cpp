#include "runtime/worker_threads.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "base/counted.h"
#include "base/devices/gpu.h"
#include "base/memory.h"
#include "base/threads.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// Charges the memory that libraries hold on the GPU for this thread's worker to the category buffers, as long as the
/// worker runs. Libraries hold it afterwards for other threads, so the allocator's own count would depend on earlier
/// threads.
class LibraryMemory {
 public:
  explicit LibraryMemory(int device)
      : device_(device), bytes_(place_of(device).is_cuda() ? library_memory_bytes() : 0) {
    if (bytes_ == 0) return;
    take_library_memory();
    charge_memory(device_, MemoryCategory::buffers, bytes_);
  }
  ~LibraryMemory() {
    if (bytes_ > 0) charge_memory(device_, MemoryCategory::buffers, -bytes_);
  }
  LibraryMemory(const LibraryMemory&) = delete;
  LibraryMemory& operator=(const LibraryMemory&) = delete;

 private:
  const int device_;
  const int64_t bytes_;
};

}  // namespace

void run_worker_threads(LocalWorld& world, const std::function<void(int rank)>& body,
                        const std::vector<int>& intra_op_threads, int first_device) {
  if (first_device + world.size() > kMaxDevices)
    fail_user({counted(first_device + world.size(), "worker"), "are too many",
               fmt::format("at most {} can work in one process", kMaxDevices), "use fewer devices"});
  const auto work = [&](int rank) {
    if (!intra_op_threads.empty()) at::set_num_threads(intra_op_threads[size_t(rank)]);
    DeviceScope device(first_device + rank);
    const LibraryMemory libraries(first_device + rank);
    body(rank);
  };
  run_threads(world.size(), "worker", work, [&](const std::string& reason) { world.abort(reason); });
}

}  // namespace trireme
