// How a replica's requests reach the shards of a parameter server.
#pragma once

#include <vector>

#include "trireme/hub.h"

namespace trireme {

/// One replica's access to the server. Used by the replica's thread only.
class Visits {
 public:
  virtual ~Visits() = default;

  struct Answers {
    std::vector<Reply> replies;  ///< in the order of the requests
    double idle_seconds = 0;     ///< time in which the server served other replicas or made the requests wait
  };
  /// Sends all requests at once. Returns when all are answered. `metered`: over the links, if there are any. Errors
  /// (run): the run was aborted; the server rejects a request.
  virtual Answers visit(std::vector<Hub::ShardRequest> requests, bool metered) = 0;
};

}  // namespace trireme
