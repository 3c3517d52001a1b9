#include "runtime/timeline.h"

namespace trireme {

const char* name_of(EventKind kind) {
  switch (kind) {
    case EventKind::load: return "load";
    case EventKind::forward: return "forward";
    case EventKind::backward: return "backward";
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

}  // namespace trireme
