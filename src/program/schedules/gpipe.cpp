#include "program/schedules/schedule.h"

namespace trireme {

std::vector<Task> gpipe(int /*stage*/, int /*stages*/, int micro_batches) {
  std::vector<Task> tasks;
  for (int k = 0; k < micro_batches; ++k) tasks.push_back({false, k});
  for (int k = micro_batches - 1; k >= 0; --k) tasks.push_back({true, k});
  return tasks;
}

}  // namespace trireme
