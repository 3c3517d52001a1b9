#include "experiment/emulation.h"

namespace trireme {

double slowness_at(const std::vector<WorkerChange>& changes, int worker, int64_t step) {
  double slowness = 1;
  for (const WorkerChange& change : changes)
    if (change.worker == worker && change.at_step <= step) slowness = change.slower;
  return slowness;
}

int64_t memory_limit_at(const std::vector<MemoryChange>& changes, int64_t at_first, int64_t step) {
  int64_t limit = at_first;
  for (const MemoryChange& change : changes)
    if (change.at_step <= step) limit = change.limit;
  return limit;
}

LinkSpeed read_link_speed(const ConfigTable& table, const LinkSpeed& speed) {
  const LinkSpeed read{table.get_bandwidth("bandwidth", speed.bandwidth), table.get_seconds("latency", speed.latency)};
  if (table.has("bandwidth") && !(read.bandwidth > 0))
    table.fail("bandwidth", "no data would ever arrive", "leave it out for no limit");
  return read;
}

}  // namespace trireme
