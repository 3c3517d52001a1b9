// Seconds of a redistribution within a stage (tensor/redistribute.h), by closed formulas.
#pragma once

#include <map>
#include <tuple>

#include "planner/exact/stage_links.h"
#include "trireme/placement.h"

namespace trireme {

/// The layout of a tensor on a stage's workers: samples are sharded over the data axis (workers / tensor), and
/// `placement` is on the tensor axis.
struct StageLayout {
  int tensor = 1;
  Placement placement;
  friend bool operator==(const StageLayout&, const StageLayout&) = default;
};

/// What the worker that receives most gets under plan_transfers, and the number of messages.
struct Arrivals {
  double share = 0;  ///< fraction of the bytes of the whole tensor
  int messages = 0;
};
/// Assumes that samples and dims divide evenly.
Arrivals arrivals(int workers, const StageLayout& from, const StageLayout& to);

/// The redistribution costs on one stage's links. Results are cached.
class RedistributionCosts {
 public:
  RedistributionCosts(const Cluster& cluster, DeviceSpan span) : cluster_(cluster), span_(span) {}

  /// `bytes`: of the whole tensor. If both layouts have the same tensor degree, the formula of the ring collective
  /// (all-reduce, reduce-scatter, all-gather) or of the pairwise all-to-all is used. Otherwise each worker receives
  /// what it lacks.
  double seconds(const StageLayout& from, const StageLayout& to, double bytes) const;

  const LinkCost& tensor_ring(int tensor) const { return ring(1, tensor); }
  const LinkCost& data_ring(int tensor) const { return ring(tensor, span_.count / tensor); }
  const LinkCost& whole_ring() const { return ring(1, span_.count); }

 private:
  const LinkCost& ring(int stride, int ranks) const;
  const LinkCost& exchange(int block) const;

  const Cluster& cluster_;
  const DeviceSpan span_;
  mutable std::map<std::pair<int, int>, LinkCost> rings_;
  mutable std::map<int, LinkCost> exchanges_;
  mutable std::map<std::tuple<int, int, int, int, int, int>, Arrivals> arrivals_;
};

}  // namespace trireme
