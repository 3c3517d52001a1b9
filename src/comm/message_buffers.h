// Host memory that a communicator between processes (comm/process) uses in addition to the caller's tensors.
// Predictions of memory need it.
#pragma once

#include <cstdint>
#include <optional>

#include "trireme/communicator.h"

namespace trireme {

/// The communicator's own buffers. In addition, a member of a sum holds the other members' summands of its part until
/// all of them have arrived and it adds them.
struct MessageBuffers {
  int64_t inline_bytes = 0;  ///< a payload of at most so many bytes is part of its frame
  int posted = 0;            ///< receives that are begun before their messages are sent, for each sender
  int64_t posted_bytes = 0;  ///< the longest payload that uses one
};

/// Returns nullopt if `world` does not connect processes, or if its tensors do not travel through memory of the host.
std::optional<MessageBuffers> message_buffers(const Communicator& world);

}  // namespace trireme
