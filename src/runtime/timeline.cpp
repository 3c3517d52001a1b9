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

const std::vector<EventKind>& all_event_kinds() {
  static const std::vector<EventKind> kinds = [] {
    std::vector<EventKind> all;
    for (int k = 0; k <= int(EventKind::other); ++k) all.push_back(EventKind(k));
    return all;
  }();
  return kinds;
}

}  // namespace trireme
