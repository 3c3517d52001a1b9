// The list of schedules.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/schedule.h"

namespace trireme {

/// All schedules: the built-in ones, then registered ones. A file here and a line in schedule.cpp add a built-in one.
const std::vector<Schedule>& known_schedules();

/// Errors (user), naming `where`: unknown schedule, with the known ones.
const Schedule& find_schedule(std::string_view name, const std::string& where);

// What is taken where nobody names a schedule.
const Schedule& usual_schedule();  ///< the registry's first
const Schedule&
lean_schedule();  ///< the plain one with the least in flight; without a pipeline it accumulates gradients
const Schedule& chunked_schedule();  ///< the first for several stages per worker

// One file each.
extern const Schedule kGpipe, kOneForwardOneBackward, kInterleaved, kZeroBubble, kPipedream, kTwoBufferedWeights;

}  // namespace trireme
