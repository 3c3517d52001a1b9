// Seconds of a redistribution within a stage (tensor/redistribute.h), by closed formulas.
#pragma once

#include <map>
#include <tuple>

#include "planner/exact/stage_links.h"
#include "trireme/placement.h"

namespace trireme {

/// Where a tensor lies on a stage's workers: samples over the data axis (workers / tensor), `placement` over the tensor
/// axis.
struct StageLayout {
  int tensor = 1;
  Placement placement;
  friend bool operator==(const StageLayout&, const StageLayout&) = default;
};

/// What the worker with most to receive gets under plan_transfers, and from how many others.
struct Arrivals {
  double share = 0;  ///< of the bytes of the whole tensor
  int messages = 0;
};
/// Samples and dims are taken to divide evenly.
Arrivals arrivals(int workers, const StageLayout& from, const StageLayout& to);

/// One stage's links, asked again and again.
class RedistributionCosts {
 public:
  RedistributionCosts(const Cluster& cluster, DeviceSpan span) : cluster_(cluster), span_(span) {}

  /// `bytes`: of the whole tensor. Where both layouts have one tensor degree: the ring collective by its formula
  /// (all-reduce, reduce-scatter, all-gather), the all-to-all by pairs. Else every worker receives what it lacks.
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
