// The demand of instructions on the machine's resources.
#pragma once

#include <vector>

namespace trireme {

/// A resource that simultaneous work shares.
struct Pool {
  enum class Kind { link, cores };
  Kind kind = Kind::link;
  double capacity =
      1;  ///< link: bytes/s, divided equally among its users; cores: how many workers compute at once without slowdown
};

/// The use of one pool by one piece of work.
struct Share {
  int pool = -1;
  double amount = 0;    ///< link: bytes; cores: seconds on an undisturbed core
  double crowding = 1;  ///< cores: factor on the time while all cores compute
  int users = 1;        ///< link: number of equal pieces that this one represents; `amount` is the sum over them
};

/// Work that takes `fixed` seconds independent of load, and then uses all shares at once. It ends when the last share
/// ends.
struct Demand {
  double fixed = 0;
  std::vector<Share> shares;
  bool is_nothing() const { return fixed <= 0 && shares.empty(); }
};

}  // namespace trireme
