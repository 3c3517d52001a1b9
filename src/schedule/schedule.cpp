#include "schedule/kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>

#include "base/additions.h"
#include "base/text.h"
#include "trireme/error.h"

namespace trireme {
namespace {

Additions<Schedule>& additions() {
  static Additions<Schedule> schedules("schedule");
  return schedules;
}

}  // namespace

const std::vector<Schedule>& known_schedules() {
  static const std::vector<Schedule> schedules = [] {
    std::vector<Schedule> all = {kGpipe,        kOneForwardOneBackward, kInterleaved, kZeroBubble,        kZeroBubbleH2,
                                 kZeroBubble2p, kZeroBubbleV,           kPipedream,   kTwoBufferedWeights};
    additions().take(all);
    return all;
  }();
  return schedules;
}

bool register_schedule(const Schedule& schedule) { return additions().add(schedule); }

const Schedule* look_up_schedule(std::string_view name) {
  const auto& all = known_schedules();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Schedule& schedule) { return schedule.name == name; });
  return found == all.end() ? nullptr : &*found;
}

const Schedule& find_schedule(std::string_view name, const std::string& where) {
  if (const Schedule* found = look_up_schedule(name)) return *found;
  const std::vector<std::string> known = schedule_names();
  const std::string near = closest_match(name, known);
  fail_user({where, fmt::format("schedule \"{}\"", name), "is not known",
             (near.empty() ? "" : fmt::format("did you mean \"{}\"? ", near)) + "known are " + join(known)});
}

std::vector<std::string> schedule_names(bool (*has)(const Schedule&)) {
  std::vector<std::string> names;
  for (const Schedule& schedule : known_schedules())
    if (!has || has(schedule)) names.emplace_back(schedule.name);
  return names;
}

int Schedule::position_of(int stage, int depth) const {
  const int along = stage % depth;
  return v_shaped && stage / depth % 2 == 1 ? depth - 1 - along : along;
}

int Schedule::stage_of(int chunk, int position, int depth) const {
  return chunk * depth + (v_shaped && chunk % 2 == 1 ? depth - 1 - position : position);
}

const Schedule& usual_schedule() { return known_schedules().front(); }

const Schedule& lean_schedule() {
  const auto in_flight = [](const Schedule& schedule) {
    return schedule.is_plain() ? schedule.in_flight({.micro_batches = 2}, 1) : INT_MAX;
  };
  return *std::min_element(known_schedules().begin(), known_schedules().end(),
                           [&](const Schedule& a, const Schedule& b) { return in_flight(a) < in_flight(b); });
}

const Schedule& chunked_schedule() {
  const auto& all = known_schedules();
  return *std::find_if(all.begin(), all.end(), [](const Schedule& schedule) { return schedule.chunked; });
}

}  // namespace trireme
