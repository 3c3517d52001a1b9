#include "runtime/event_kind.h"

namespace trireme {

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
    case OpCode::agree: return EventKind::reduce;
  }
  return EventKind::other;
}

}  // namespace trireme
