// Sub-groups of the workers.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "trireme/communicator.h"

namespace trireme {

/// Holds one communicator for each set of ranks, shared by all layers and programs. Used by the worker's thread only.
class SubGroups {
 public:
  /// `world` spans all ranks and must outlive this object.
  explicit SubGroups(Communicator& world) : world_(world) {}

  /// Returns the group of these ranks. The first call forms it: all its ranks must make that call, in the same order of
  /// groups. Valid as long as this object exists.
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
