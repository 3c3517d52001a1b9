// Changes that an experiment applies to workers during a run, to show their effect: workers compute more slowly, or may
// use less memory. (Links: comm/local/emulated_links.h.)
#pragma once

#include <cstdint>
#include <vector>

#include "comm/local/emulated_links.h"
#include "trireme/config.h"

namespace trireme {

/// From a step on, the worker's computing takes `slower` times as long as without any change. The worker sleeps for the
/// rest of the time.
struct WorkerChange {
  int worker = 0;
  int64_t at_step = 0;  ///< 0-based; applies before this step of the run
  double slower = 1;
};

/// From a step on, each worker may use `limit` bytes for tensors.
struct MemoryChange {
  int64_t at_step = 0;
  int64_t limit = 0;
};

/// Return the value in 0-based `step`. `changes` are sorted by step, ascending.
double slowness_at(const std::vector<WorkerChange>& changes, int worker, int64_t step);
/// `at_first`: the limit before the first change; 0: no limit.
int64_t memory_limit_at(const std::vector<MemoryChange>& changes, int64_t at_first, int64_t step);

/// Reads a table's bandwidth and latency. A missing key keeps its value of `speed`. Errors (user): a bandwidth of 0.
LinkSpeed read_link_speed(const ConfigTable& table, const LinkSpeed& speed);

}  // namespace trireme
