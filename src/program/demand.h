// What instructions ask of the machine.
#pragma once

#include <vector>

namespace trireme {

/// Something that work which goes on at once shares.
struct Pool {
  enum class Kind { link, cores };
  Kind kind = Kind::link;
  double capacity =
      1;  ///< link: bytes/s, divided equally among those who use it; cores: how many compute at once undisturbed
};

/// What one piece of work wants of a pool.
struct Share {
  int pool = -1;
  double amount = 0;    ///< bytes of a link; seconds on a core by itself
  double crowding = 1;  ///< cores: takes longer by this factor while all of them compute
  int users = 1;        ///< link: stands for so many equal pieces; `amount` is that of all of them
};

/// First `fixed` seconds that nothing changes, then all shares at once; it ends with the last of them.
struct Demand {
  double fixed = 0;
  std::vector<Share> shares;
  bool is_nothing() const { return fixed <= 0 && shares.empty(); }
};

}  // namespace trireme
