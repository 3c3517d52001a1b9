#include "schedule/schedule.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"
#include "schedule/one_stage.h"

namespace trireme {

const std::vector<Schedule>& known_schedules() {
  static const std::vector<Schedule> schedules = {kGpipe,      kOneForwardOneBackward, kInterleaved,
                                                  kZeroBubble, kPipedream,             kTwoBufferedWeights};
  return schedules;
}

const Schedule& find_schedule(std::string_view name, const std::string& where) {
  std::vector<std::string> known;
  for (const Schedule& schedule : known_schedules()) {
    if (schedule.name == name) return schedule;
    known.emplace_back(schedule.name);
  }
  const std::string near = closest_match(name, known);
  fail_user({where, fmt::format("schedule \"{}\"", name), "is not known",
             (near.empty() ? "" : fmt::format("did you mean \"{}\"? ", near)) + "known are " + join(known)});
}

Schedule::Misfit misfit_of_chunks(const PipelinePlace& place) {
  if (place.chunks == 1) return {};
  return {fmt::format("it runs one stage per worker, here are {}", place.chunks),
          "give every worker one stage or use schedule \"interleaved\""};
}

}  // namespace trireme
