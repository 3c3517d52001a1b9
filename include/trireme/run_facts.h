// What policies must know of a run to accept it.
#pragma once

#include <cstdint>

namespace trireme {

struct RunFacts {
  int replicas = 1;
  uint64_t seed = 0;
  /// The local optimizer is w -= learning rate * g, g with weight decay if any: no momentum, no moments.
  bool plain_sgd = false;
};

}  // namespace trireme
