// The list of schedules.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/schedule.h"

namespace trireme {

/// Returns all schedules: the built-in ones, then registered ones. A built-in one has a file here, a declaration below
/// and a line in schedule.cpp.
const std::vector<Schedule>& known_schedules();

/// Errors (user), with `where`: an unknown schedule; the message lists the known ones.
const Schedule& find_schedule(std::string_view name, const std::string& where);

// More defaults for plans that name no schedule.
/// The plain schedule with the fewest micro-batches in flight. Without a pipeline it accumulates gradients.
const Schedule& lean_schedule();
const Schedule& chunked_schedule();  ///< the first schedule for several stages per worker

// Each is in a file of its own.
extern const Schedule kGpipe, kOneForwardOneBackward, kInterleaved, kZeroBubble, kZeroBubbleH2, kZeroBubble2p,
    kZeroBubbleV, kPipedream, kTwoBufferedWeights;

}  // namespace trireme
