// Memory of the host that a communicator between processes takes for a worker beside the tensors that it is given
// (comm/process). Predictions of memory need it.
#pragma once

#include <cstdint>
#include <optional>

#include "trireme/communicator.h"

namespace trireme {

/// The communicator's own buffers. Beside them a member of a sum receives the other members' summands of its part, all
/// before it adds them.
struct MessageBuffers {
  int64_t inline_bytes = 0;  ///< a payload of at most so many bytes is part of its frame
  int posted = 0;            ///< receives that are begun before their messages are sent, for each sender
  int64_t posted_bytes = 0;  ///< the longest payload that uses one
};

/// Null: `world` is not between processes, or its tensors do not travel through memory of the host.
std::optional<MessageBuffers> message_buffers(const Communicator& world);

}  // namespace trireme
