// Moves a tensor from one layout to another, on the same or other workers (a pipeline boundary is a redistribution
// too). The adjoint of a redistribution is a redistribution: from the gradient's layout at the consumer to the layout
// that the producer needs.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <vector>

#include "trireme/communicator.h"
#include "trireme/placement.h"

namespace trireme {

/// One piece of a redistribution: `box` (global indices) goes from `source` to `destination`. `add` is true if it is a
/// further summand of a region that an earlier transfer to the same destination has filled.
struct TensorTransfer {
  int source = 0;
  int destination = 0;
  Box box;
  bool add = false;
};

/// A pure function of the layouts and the shape: every worker derives the same list. It is ordered by destination, then
/// by summand, so sums are added in the same order everywhere and replicas remain bit-identical. If a source has
/// several replicas, a destination reads its own one, otherwise one chosen round-robin. A Partial destination gets the
/// value at index 0 of that axis and zeros elsewhere. Exception: if the source is Partial on the same axis with the
/// same degree, index i gets summand i. A destination outside `from.mesh` that receives no values (no samples, or zeros
/// of a Partial) gets one transfer with an empty box: a message without elements, which tells it the dtype.
std::vector<TensorTransfer> plan_transfers(const Layout& from, const Layout& to, const Shape& shape);

/// Returns `send_receive` if the two meshes have different workers; `none` or `slice` if no value moves to another
/// worker.
RedistributionKind classify(const Layout& from, const Layout& to);

/// Returns the bytes that leave `worker` in these transfers. Transfers to itself count nothing.
int64_t bytes_sent_by(int worker, const std::vector<TensorTransfer>& transfers, int64_t bytes_per_element);

/// Executes the part of `worker` (a world rank; `world` is its communicator over all ranks): sends what other workers
/// need and waits for what it needs. `local` is its shard under `from` (ignored if it is not in from.mesh). Returns its
/// shard under `to`, or an undefined tensor if it is not in to.mesh. `tag` separates concurrent redistributions. The
/// result is `local` itself if nothing moves, and may be a view of `local`: neither may be written to afterwards,
/// because other workers may still be reading. A 4-D channels_last tensor remains channels_last. bfloat16 summands are
/// added in float and rounded once.
/// Uses messages only, so workers may run redistributions with different tags in any order.
at::Tensor redistribute(const at::Tensor& local, const Layout& from, const Layout& to, const Shape& shape, int worker,
                        Communicator& world, int64_t tag);

/// As `redistribute`, with one difference: if Partial becomes Replicate on one mesh and nothing else changes, the
/// workers that hold the summands all-reduce them (fewer bytes, one pass over memory). These workers must therefore
/// execute such redistributions in the same order. One object per worker, used by its thread only.
class Redistributor {
 public:
  /// `world` spans all ranks, belongs to `worker` and must outlive this object. Groups are made at their first use.
  Redistributor(Communicator& world, int worker) : world_(world), worker_(worker) {}

  at::Tensor run(const at::Tensor& local, const Layout& from, const Layout& to, const Shape& shape, int64_t tag);

 private:
  Communicator& group_of(const std::vector<int>& workers);

  Communicator& world_;
  const int worker_;
  std::map<std::vector<int>, std::unique_ptr<Communicator>> groups_;  // by ascending world ranks
};

}  // namespace trireme
