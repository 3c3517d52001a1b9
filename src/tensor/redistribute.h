// Moves a tensor from one layout to another, on the same workers or on others (a pipeline boundary is a redistribution
// too). The adjoint of a redistribution is again one: from the gradient's layout at the consumer to the one the
// producer needs.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <vector>

#include "trireme/communicator.h"
#include "trireme/placement.h"

namespace trireme {

/// One piece of the move: `box` (global indices) goes from `source` to `destination`; `add` when it is a further
/// summand of a region that an earlier transfer to the same destination filled.
struct TensorTransfer {
  int source = 0;
  int destination = 0;
  Box box;
  bool add = false;
};

/// A pure function of the layouts and the shape: every worker derives the same list. Ordered by destination, then by
/// summand, so sums are added in the same order everywhere and replicas stay bit-identical. Of several replicas of a
/// source, a destination reads its own, else one picked round-robin. A destination that is Partial gets the value at
/// index 0 of that axis and zeros elsewhere; where the source is Partial on the same axis and as wide, index i gets
/// summand i instead. A destination outside `from.mesh` to which no values go (no samples, or zeros of a Partial) gets
/// one transfer with an empty box, a message without elements, from which it learns the dtype.
std::vector<TensorTransfer> plan_transfers(const Layout& from, const Layout& to, const Shape& shape);

/// `send_receive` when the two meshes have different workers; `none` and `slice` when no value changes worker.
RedistributionKind classify(const Layout& from, const Layout& to);

/// Bytes that leave `worker` under the transfers (those to itself are free).
int64_t bytes_sent_by(int worker, const std::vector<TensorTransfer>& transfers, int64_t bytes_per_element);

/// Runs the part of `worker` (world rank; `world` is its communicator over all ranks): sends what others need, waits
/// for what it needs. `local`: its shard under `from` (ignored where it is not in from.mesh). Returns its shard under
/// `to`, or an undefined tensor where it is not in to.mesh. `tag` separates concurrent redistributions. The result is
/// `local` itself when nothing has to move, and may be a view of it when the result is a part of it: neither may be
/// written to afterwards (other workers may still be reading). A 4-D channels_last tensor stays channels_last. bfloat16
/// summands are added in float and rounded once.
/// Uses messages only, so workers may run different redistributions in any order that their tags tell apart.
at::Tensor redistribute(const at::Tensor& local, const Layout& from, const Layout& to, const Shape& shape, int worker,
                        Communicator& world, int64_t tag);

/// As `redistribute`, with one difference: where Partial becomes Replicate on one mesh and nothing else changes, the
/// workers that hold the summands all-reduce them (fewer bytes, one pass over memory). They must therefore come to such
/// redistributions in the same order. One object per worker, used by its thread only.
class Redistributor {
 public:
  /// `world` spans all ranks, belongs to `worker` and outlives this object. Groups are made on first use.
  Redistributor(Communicator& world, int worker) : world_(world), worker_(worker) {}

  at::Tensor run(const at::Tensor& local, const Layout& from, const Layout& to, const Shape& shape, int64_t tag);

 private:
  Communicator& group_of(const std::vector<int>& workers);

  Communicator& world_;
  const int worker_;
  std::map<std::vector<int>, std::unique_ptr<Communicator>> groups_;  // by ascending world ranks
};

}  // namespace trireme
