// A schedule: in which order the stages of a pipeline do the forward and backward work of the micro-batches.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct Task {
  bool backward = false;
  int micro_batch = 0;
};

/// All forwards, then all backwards in reverse order (Huang et al., "GPipe", NeurIPS 2019).
std::vector<Task> gpipe(int stage, int stages, int micro_batches);

/// The tasks of one stage in order. Errors (user): unknown schedule, with the known ones.
std::vector<Task> schedule_tasks(std::string_view schedule, int stage, int stages, int micro_batches);

}  // namespace trireme
