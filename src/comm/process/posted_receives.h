// Receives that are begun before their message is sent.
//
// Gloo sends a payload when its receiver has begun to receive it. If that happens after the sender has gone on with its
// work, gloo's thread in the sender must wait for a core, up to some milliseconds. A receive that is begun before its
// message is sent is called "posted" (MPI's term). A rank posts receives for the next payloads from each other rank.
// Both ranks derive the sizes of these receives from the earlier messages, in their order, so they need not exchange
// the sizes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "trireme/backend.h"

namespace trireme {

constexpr int kPostedReceives = 2;  ///< from each rank: a sender that is one message ahead need not wait
constexpr int64_t kPostedBytes = int64_t{4} << 20;  ///< longer payloads take much longer to send than to wait for

/// The posted receives of messages from one rank to another. Sender and receiver each have such an object, with equal
/// contents. Not thread-safe.
class PostedSizes {
 public:
  struct Receive {
    int64_t number;  ///< from 0
    int64_t bytes;   ///< room for this many
  };

  /// Call it for each message, with the size of its payload. Returns the posted receive that the message uses; nullopt:
  /// none.
  std::optional<Receive> use(int64_t bytes);
  /// Call it after use(). Returns the next receive to be posted; nullopt: enough are posted.
  std::optional<Receive> post();

 private:
  std::deque<Receive> posted_;
  std::deque<int64_t> recent_;  ///< sizes of the last messages
  int64_t count_ = 0;           ///< receives that were posted so far
};

/// The receiver's side. Not thread-safe.
class PostedReceives {
 public:
  struct Received {
    at::Tensor bytes;  ///< the payload's, a part of the storage
    std::unique_ptr<Transfer> transfer;
  };
  /// Begins to receive the payload with this number into these bytes.
  using Begin = std::function<std::unique_ptr<Transfer>(const at::Tensor& bytes, int64_t number)>;

  /// Call it for each message, with the size of its payload. Returns the posted receive that the message uses. nullopt:
  /// no receive was begun, and the payload must be received with the tag in its frame.
  std::optional<Received> use(int64_t bytes);
  /// Call it after use(), when the message has been delivered. Posts the next receives. If `has_room`, it also begins
  /// them; otherwise they are begun when their messages arrive. Errors: those of `begin`.
  void post(bool has_room, const Begin& begin);

 private:
  struct Posted {
    int64_t number;
    Received received;  ///< no transfer: not begun
  };
  PostedSizes sizes_;
  std::deque<Posted> posted_;
};

}  // namespace trireme
