// Connections of machines to one network, on a modelled clock: what goes out of one and what comes in are carried by
// themselves.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/local/emulated_links.h"

namespace trireme {

/// A message takes the sender's connection from when it is free, and the receiver's from then or from when that is
/// free, each for bytes / its own bandwidth, and arrives the larger latency after both are through: a fast receiver
/// takes from many slow senders at once. A collective begins when its last member and all their connections are there,
/// and takes the most that any member sends over its connection, and its rounds of the largest latency. Times are
/// seconds on one clock, which calls follow.
class DuplexLinks {
 public:
  explicit DuplexLinks(const std::vector<LinkSpeed>& connections);

  /// When a message that sets out now is there.
  double message(int from, int to, int64_t bytes, double now);
  /// When a collective that is ready to begin at `ready` is through; `bytes[i]` leave members[i].
  double collective(std::span<const int> members, std::span<const int64_t> bytes, int rounds, double ready);

 private:
  struct Connection {
    LinkSpeed speed;
    double out_free = 0, in_free = 0;  ///< when what goes out and comes in by then is through
  };
  std::vector<Connection> connections_;
};

}  // namespace trireme
