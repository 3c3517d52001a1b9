// Full-duplex connections of machines to one network, on a modelled clock.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/local/emulated_links.h"

namespace trireme {

/// A message first occupies the sender's connection, as soon as it is free. From that moment on, or as soon as it is
/// free, it also occupies the receiver's connection. Each is occupied for bytes / its own bandwidth. It arrives the
/// larger latency after both have finished. So a fast receiver receives from many slow senders at once. A collective
/// begins when its last member has arrived and all their connections are free. It takes the longest time that any
/// member needs to send its bytes, plus its rounds times the largest latency. Times are seconds on one clock; calls
/// must come in the order of that clock.
class DuplexLinks {
 public:
  explicit DuplexLinks(const std::vector<LinkSpeed>& connections);

  /// Returns the arrival time of a message that is sent at `now`.
  double message(int from, int to, int64_t bytes, double now);
  /// Returns the end of a collective that can begin at `ready`. `bytes[i]` leave members[i].
  double collective(std::span<const int> members, std::span<const int64_t> bytes, int rounds, double ready);

 private:
  struct Connection {
    LinkSpeed speed;
    double out_free = 0, in_free = 0;  ///< when the earlier outgoing and incoming transfers end
  };
  std::vector<Connection> connections_;
};

}  // namespace trireme
