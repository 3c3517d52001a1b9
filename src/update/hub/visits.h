// How a replica's requests reach the shards of a parameter server.
#pragma once

#include <vector>

#include "trireme/hub.h"

namespace trireme {

/// One replica's way to the server. Belongs to the replica's thread.
class Visits {
 public:
  virtual ~Visits() = default;

  struct Answers {
    std::vector<Reply> replies;  ///< in the order of the requests
    double idle_seconds = 0;     ///< the server was with other replicas, or put the requests off
  };
  /// All requests set out at once; returns when all are answered. `metered`: over the links, where there are any.
  /// Errors (run): the run has been aborted; the server cannot use a request.
  virtual Answers visit(std::vector<Hub::ShardRequest> requests, bool metered) = 0;
};

}  // namespace trireme
