#include <fmt/format.h>

#include <numeric>
#include <utility>
#include <vector>

#include "base/error.h"
#include "comm/mpi/mpi_transport.h"
#include "comm/process/process_communicator.h"

namespace trireme {

std::unique_ptr<Communicator> mpi_communicator(const MpiOptions& options) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size)
    fail_user({.where = "backend mpi",
               .what = fmt::format("rank {} of {}", options.rank, options.size),
               .why = "ranks count from 0 to size - 1",
               .next = "check the launcher's rank and world size"});
  Connections connections = connect_over_mpi(options);
  const WorldOptions of_world{.rank = options.rank,
                              .size = options.size,
                              .timeout_seconds = options.timeout_seconds,
                              .device = options.device,
                              .recorder = options.recorder};
  std::vector<int> everyone(size_t(options.size));
  std::iota(everyone.begin(), everyone.end(), 0);
  const std::shared_ptr<ProcessWorld> world(new ProcessWorld(of_world, std::move(connections)), [](ProcessWorld* ended) {
    if (!ended->abort_reason().empty()) expect_no_end_of_mpi();
    delete ended;
  });
  return std::make_unique<ProcessCommunicator>(world, std::move(everyone), options.rank, 0, nullptr);
}

}  // namespace trireme
