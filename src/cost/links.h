// The demand of transfers on the machine.
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
  /// `bytes`: of the whole tensor, before a reduce_scatter and after an all_gather or all_reduce; for an all_to_all,
  /// what one worker holds. `ranks`: the members, ascending; with fewer than two the demand is empty. `alike`: the
  /// number of such groups that share the links that leave a node at the same time; the result covers all of them.
  virtual Demand collective(RedistributionKind kind, double bytes, std::span<const int> ranks, int alike = 1) const = 0;
  /// The same, for the redistribution of layers' tensors within a step.
  virtual Demand redistribution(RedistributionKind kind, double bytes, std::span<const int> ranks,
                                int alike = 1) const {
    return collective(kind, bytes, ranks, alike);
  }
  /// The part of `rank` in an all_gather for which it does not wait: it sends its slice and continues. `alike`: the
  /// number of ranks on its node that do so at the same time.
  virtual Demand giving(double bytes, std::span<const int> ranks, int rank, int alike = 1) const = 0;
  virtual Demand message(int from, int to, double bytes, int alike = 1) const = 0;
  /// Returns the work of a transfer on the cores of its ranks, in addition to its demand of links. The ranks may
  /// compute meanwhile. `ranks`: as in collective(); of a message (RedistributionKind::send_receive) its sender and its
  /// receiver.
  virtual std::vector<Share> work_beside(RedistributionKind, double /*bytes*/, std::span<const int> /*ranks*/) const {
    return {};
  }
  /// The same, for a redistribution of a layer's tensors within a step; includes the copies that the redistribution
  /// makes.
  virtual std::vector<Share> work_of_redistribution(RedistributionKind kind, double bytes,
                                                    std::span<const int> ranks) const {
    return work_beside(kind, bytes, ranks);
  }
  /// The pools that this rank's transfers use: its own link and its node's connection. Empty: not known.
  virtual std::vector<int> pools_of(int) const { return {}; }
  /// True if the receiver's thread moves the bytes when it receives the message; false if the link moves them when the
  /// message is sent.
  virtual bool receiver_moves() const = 0;
  /// The pool of cores on which this rank computes; -1 if it has a device of its own.
  virtual int cores_of(int rank) const = 0;
  virtual Overlap overlap() const = 0;
  /// Seconds between the arrival of a message and the moment at which the waiting worker continues.
  virtual double hand_over() const { return 0; }
  /// Factor on computation that starts while the worker communicates.
  virtual double compute_slowdown() const { return 1; }
};

}  // namespace trireme
