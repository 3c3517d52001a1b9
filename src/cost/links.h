// What moving bytes asks of the machine.
#pragma once

#include <span>
#include <vector>

#include "program/demand.h"
#include "tensor/redistribute.h"
#include "trireme/cluster.h"

namespace trireme {

/// The connections of a cluster. Thread-safe.
class Links {
 public:
  virtual ~Links() = default;
  virtual const std::vector<Pool>& pools() const = 0;
  /// `bytes`: of the whole tensor, as it is before a reduce_scatter and after an all_gather or all_reduce; of what one
  /// worker holds for an all_to_all. `ranks`: who takes part, ascending; one or none: nothing. `alike`: so many such
  /// groups at once share what leaves a node, and this one stands for all of them.
  virtual Demand collective(RedistributionKind kind, double bytes, std::span<const int> ranks, int alike = 1) const = 0;
  /// Likewise, as layers' tensors are redistributed in the middle of a step.
  virtual Demand redistribution(RedistributionKind kind, double bytes, std::span<const int> ranks,
                                int alike = 1) const {
    return collective(kind, bytes, ranks, alike);
  }
  /// The part of `rank` in an all_gather that nobody waits for: it gives away what it has, and is through. `alike`: so
  /// many ranks of its node do.
  virtual Demand giving(double bytes, std::span<const int> ranks, int rank, int alike = 1) const = 0;
  virtual Demand message(int from, int to, double bytes, int alike = 1) const = 0;
  /// The pools that this rank's transfers go through: its own link, its node's connection. Empty: not told.
  virtual std::vector<int> pools_of(int) const { return {}; }
  /// Whether the receiver's own thread moves the bytes, when it takes the message; else the link does, once it is sent.
  virtual bool receiver_moves() const = 0;
  /// The pool of cores that this rank computes with; -1: its device is its own.
  virtual int cores_of(int rank) const = 0;
  virtual Overlap overlap() const = 0;
  /// Seconds until a worker that waits for another one goes on, once what it waits for is there.
  virtual double hand_over() const { return 0; }
  /// Factor on computing that begins while the worker communicates.
  virtual double compute_slowdown() const { return 1; }
};

}  // namespace trireme
