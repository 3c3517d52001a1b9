// What moving bytes asks of the machine.
#pragma once

#include <span>
#include <vector>

#include "plan/cluster.h"
#include "tensor/redistribute.h"

namespace trireme {

/// Something that work which goes on at once shares.
struct Pool {
  enum class Kind { link, cores };
  Kind kind = Kind::link;
  double capacity = 1;  ///< link: bytes/s, divided equally among those who use it; cores: how many compute at once undisturbed
};

/// What one piece of work wants of a pool.
struct Share {
  int pool = -1;
  double amount = 0;    ///< bytes of a link; seconds on a core by itself
  double crowding = 1;  ///< cores: takes longer by this factor while all of them compute
  int users = 1;        ///< link: stands for so many equal pieces; `amount` is that of all of them
};

/// First `fixed` seconds that nothing changes, then all shares at once; it ends with the last of them.
struct Demand {
  double fixed = 0;
  std::vector<Share> shares;
  bool is_nothing() const { return fixed <= 0 && shares.empty(); }
};

/// The connections of a cluster. Thread-safe.
class Links {
 public:
  virtual ~Links() = default;
  virtual const std::vector<Pool>& pools() const = 0;
  /// `bytes`: of the whole tensor, as it is before a reduce_scatter and after an all_gather or all_reduce; of what one worker holds for an
  /// all_to_all. `ranks`: who takes part, ascending; one or none: nothing. `alike`: so many such groups at once share what leaves a node,
  /// and this one stands for all of them.
  virtual Demand collective(RedistributionKind kind, double bytes, std::span<const int> ranks, int alike = 1) const = 0;
  /// Likewise, as layers' tensors are redistributed in the middle of a step.
  virtual Demand redistribution(RedistributionKind kind, double bytes, std::span<const int> ranks, int alike = 1) const {
    return collective(kind, bytes, ranks, alike);
  }
  /// The part of `rank` in an all_gather that nobody waits for: it gives away what it has, and is through. `alike`: so many ranks of its node do.
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
