#include "runtime/timeline.h"

namespace trireme {

const char* name_of(EventKind kind) {
  switch (kind) {
    case EventKind::load: return "load";
    case EventKind::forward: return "forward";
    case EventKind::recompute: return "recompute";
    case EventKind::backward: return "backward";
    case EventKind::gather: return "gather";
    case EventKind::redistribute: return "redistribute";
    case EventKind::send: return "send";
    case EventKind::receive: return "receive";
    case EventKind::reduce: return "reduce";
    case EventKind::update: return "update";
    case EventKind::wait: return "wait";
    case EventKind::other: return "other";
  }
  return "unknown";
}

EventKind event_kind(OpCode code) {
  switch (code) {
    case OpCode::load_batch: return EventKind::load;
    case OpCode::forward: return EventKind::forward;
    case OpCode::recompute: return EventKind::recompute;
    case OpCode::backward:
    case OpCode::backward_input:
    case OpCode::backward_weight: return EventKind::backward;
    case OpCode::redistribute:
    case OpCode::synchronize_buffers: return EventKind::redistribute;
    case OpCode::send: return EventKind::send;
    case OpCode::receive: return EventKind::receive;
    case OpCode::prefetch_weights:
    case OpCode::gather_weights:
    case OpCode::release_weights: return EventKind::gather;
    case OpCode::reduce_gradients:
    case OpCode::clip_gradients: return EventKind::reduce;
    case OpCode::optimizer_step: return EventKind::update;
  }
  return EventKind::other;
}

const std::vector<EventKind>& all_event_kinds() {
  static const std::vector<EventKind> kinds = [] {
    std::vector<EventKind> all;
    for (int k = 0; k <= int(EventKind::other); ++k) all.push_back(EventKind(k));
    return all;
  }();
  return kinds;
}

}  // namespace trireme
