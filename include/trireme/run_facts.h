// What policies must know about a run to accept it.
#pragma once

#include <cstdint>

namespace trireme {

struct RunFacts {
  int replicas = 1;
  uint64_t seed = 0;
  /// True if the local optimizer is w -= learning rate * g (g may include weight decay): no momentum, no moments.
  bool plain_sgd = false;
};

}  // namespace trireme
