// The timeline of the workers: one trace format for runs and simulations.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "program/op_codes.h"

namespace trireme {

const char* name_of(EventKind kind);
/// Returns all kinds in the order of their declaration.
const std::vector<EventKind>& all_event_kinds();

/// One instruction on one worker. Times are in seconds since the start of the traced step.
struct Event {
  int rank = 0;
  EventKind kind = EventKind::other;
  std::string name;      ///< "forward conv1..relu1"
  int micro_batch = -1;  ///< -1: does not belong to a micro-batch
  double begin = 0;
  double end = 0;
  int64_t bytes = 0;  ///< sent by this worker in it
};

struct Timeline {
  int64_t step = 0;
  int workers = 0;
  std::vector<Event> events;  ///< ordered by rank, then by begin
};

}  // namespace trireme
