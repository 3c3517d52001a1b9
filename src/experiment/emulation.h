// What an experiment has workers suffer during a run, so that it can be shown what comes of it: they compute more
// slowly, they may take less memory. (Links: comm/local/emulated_links.h.)
#pragma once

#include <cstdint>
#include <vector>

#include "comm/local/emulated_links.h"
#include "trireme/config.h"

namespace trireme {

/// From a step on what a worker computes takes `slower` times as long as without any change: it sleeps for the rest.
struct WorkerChange {
  int worker = 0;
  int64_t at_step = 0;  ///< 0-based: before this step of the run
  double slower = 1;
};

/// From a step on each worker may take so many bytes for tensors.
struct MemoryChange {
  int64_t at_step = 0;
  int64_t limit = 0;
};

/// What holds in 0-based `step`; changes are by step, ascending.
double slowness_at(const std::vector<WorkerChange>& changes, int worker, int64_t step);
/// `at_first`: before the first change; 0: no limit.
int64_t memory_limit_at(const std::vector<MemoryChange>& changes, int64_t at_first, int64_t step);

/// A table's bandwidth and latency; what it leaves out stays as it is in `speed`. Errors (user): no bandwidth.
LinkSpeed read_link_speed(const ConfigTable& table, const LinkSpeed& speed);

}  // namespace trireme
