#include "program/schedules/schedule.h"

#include <fmt/format.h>

#include "base/error.h"

namespace trireme {

std::vector<Task> schedule_tasks(std::string_view schedule, int stage, int stages, int micro_batches) {
  if (schedule == "gpipe") return gpipe(stage, stages, micro_batches);
  fail_user({"plan", fmt::format("schedule \"{}\"", schedule), "is not known", "known: gpipe"});
}

}  // namespace trireme
