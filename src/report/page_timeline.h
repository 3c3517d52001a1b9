// A timeline as the report page draws it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "runtime/timeline.h"

namespace trireme {

/// Returns the step, the names of the lanes, a note ("": none), and the events as lists: lane, place beside others of
/// that lane (event_lanes), kind, name, micro-batch, begin, end, bytes. In a large timeline workers that do the same at
/// the same time share a lane, and at most kMostLanes lanes are kept.
nlohmann::json page_timeline(const Timeline& timeline);

constexpr int kFewWorkers = 8;         ///< a timeline with no more workers has a lane for each
constexpr size_t kMostLanes = 24;      ///< of one timeline
constexpr double kAlikeWithin = 0.01;  ///< of the step: times of workers that share a lane differ by less

}  // namespace trireme
