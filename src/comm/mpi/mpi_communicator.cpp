#include <fmt/format.h>

#include <numeric>
#include <utility>
#include <vector>

#include "base/error.h"
#include "comm/gloo/gloo_communicator.h"
#include "comm/mpi/mpi_transport.h"

namespace trireme {

std::unique_ptr<Communicator> mpi_communicator(const MpiOptions& options) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size)
    fail_user({.where = "backend mpi",
               .what = fmt::format("rank {} of {}", options.rank, options.size),
               .why = "ranks count from 0 to size - 1",
               .next = "check the launcher's rank and world size"});
  Connections connections = connect_over_mpi(options);
  const GlooOptions of_world{.rank = options.rank,
                             .size = options.size,
                             .meeting_seconds = options.meeting_seconds,
                             .timeout_seconds = options.timeout_seconds,
                             .device = options.device,
                             .recorder = options.recorder};
  std::vector<int> everyone(size_t(options.size));
  std::iota(everyone.begin(), everyone.end(), 0);
  const std::shared_ptr<GlooWorld> world(new GlooWorld(of_world, std::move(connections)), [](GlooWorld* ended) {
    if (!ended->abort_reason().empty()) expect_no_end_of_mpi();
    delete ended;
  });
  return std::make_unique<GlooCommunicator>(world, std::move(everyone), options.rank, 0, nullptr);
}

}  // namespace trireme
