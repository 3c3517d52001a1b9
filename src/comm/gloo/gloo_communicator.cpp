#include <fmt/format.h>

#include <numeric>
#include <utility>
#include <vector>

#include "base/error.h"
#include "comm/gloo/gloo_transport.h"
#include "comm/process/process_communicator.h"

namespace trireme {

std::unique_ptr<Communicator> gloo_communicator(const GlooOptions& options) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size)
    fail_user({.where = "backend gloo",
               .what = fmt::format("rank {} of {}", options.rank, options.size),
               .why = "ranks count from 0 to size - 1",
               .next = "check the launcher's rank and world size"});
  std::vector<int> everyone(options.size);
  std::iota(everyone.begin(), everyone.end(), 0);
  Connections connections = connect_ranks(options);
  const WorldOptions of_world{.rank = options.rank,
                              .size = options.size,
                              .address = options.address,
                              .port = options.port,
                              .store_file = options.store_file,
                              .store_is_kept = options.store_is_kept,
                              .timeout_seconds = options.timeout_seconds,
                              .least_timeout_seconds = options.least_timeout_seconds,
                              .device = options.device,
                              .recorder = options.recorder};
  return std::make_unique<ProcessCommunicator>(std::make_shared<ProcessWorld>(of_world, std::move(connections)), std::move(everyone), options.rank, 0,
                                            nullptr);
}

}  // namespace trireme
