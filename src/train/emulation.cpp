#include "train/emulation.h"

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

}  // namespace trireme
