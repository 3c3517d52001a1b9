// Sub-groups of the workers.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "trireme/communicator.h"

namespace trireme {

/// One communicator for each set of ranks, whichever layers and programs ask for it. Used by the worker's thread.
class SubGroups {
 public:
  /// `world` spans all ranks and outlives it.
  explicit SubGroups(Communicator& world) : world_(world) {}

  /// The group is formed at the first call with these ranks: all of them make it, in the same order of groups. Valid as
  /// long as this object.
  Communicator& of(const std::vector<int>& ranks) {
    auto it = groups_.find(ranks);
    if (it == groups_.end()) it = groups_.emplace(ranks, world_.group(ranks)).first;
    return *it->second;
  }

 private:
  Communicator& world_;
  std::map<std::vector<int>, std::unique_ptr<Communicator>> groups_;
};

}  // namespace trireme
