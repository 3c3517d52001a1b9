// Plans transfers between workers: pure functions of two layouts and a shape.

#include <algorithm>
#include <numeric>
#include <set>

#include "comm/formulas.h"
#include "tensor/all_reduce_group.h"
#include "tensor/redistribute.h"
#include "tensor/transfers_to.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// Returns the indices along one source axis from which a destination reads. Of replicas it reads one. Of shards or
/// summands it reads all; if both axes are divided in the same way, only the one with its own index. `equal_shares`:
/// the shards of a dim have the same sizes on both meshes.
std::vector<int> indices_to_read(const Placement& from, int degree, const Placement& to, int to_degree, int own_index,
                                 int to_index, int spread, bool equal_shares) {
  if (from.is_replicate()) return {own_index >= 0 ? own_index : spread % degree};
  const bool same_shards = from.is_shard() && from == to && equal_shares;
  const bool same_summands = from.is_partial() && to.is_partial();
  if (degree == to_degree && (same_shards || same_summands)) return {to_index};
  std::vector<int> all(degree);
  for (int i = 0; i < degree; ++i) all[i] = i;
  return all;
}

/// A Partial destination holds the value only at index 0 of the axis, unless each summand goes to the same index.
bool holds_zeros(const Placement& from, int degree, const Placement& to, int to_degree, int to_index) {
  return to.is_partial() && to_index > 0 && !(from.is_partial() && degree == to_degree);
}

class DestinationPlan {
 public:
  DestinationPlan(const Layout& from, const Layout& to, const Shape& shape, int destination)
      : from_(from), to_(to), shape_(shape), destination_(destination), box_(to.box_of(destination, shape)) {
    const Mesh& mesh = from.mesh;
    const int index = to.mesh.index_of(destination);
    is_holder_ = mesh.index_of(destination) >= 0;
    const int data_index = to.mesh.data_index(destination);
    const int tensor_index = to.mesh.tensor_index(destination);
    data_ = indices_to_read(from.data, mesh.data, to.data, to.mesh.data, is_holder_ ? mesh.data_index(destination) : -1,
                            data_index, index, mesh.shares == to.mesh.shares);
    // If the data axis is replicated too, the choices on both axes vary over the destinations, so that the reads are
    // spread over all replicas.
    const int spread = from.data.is_replicate() ? index / mesh.data : index;
    tensor_ = indices_to_read(from.tensor, mesh.tensor, to.tensor, to.mesh.tensor,
                              is_holder_ ? mesh.tensor_index(destination) : -1, tensor_index, spread, true);
    zeros_ = holds_zeros(from.data, mesh.data, to.data, to.mesh.data, data_index) ||
             holds_zeros(from.tensor, mesh.tensor, to.tensor, to.mesh.tensor, tensor_index);
  }

  void append(std::vector<TensorTransfer>& transfers) const {
    const size_t before = transfers.size();
    if (!zeros_ && !is_empty(box_)) append_values(transfers);
    if (transfers.size() > before || is_holder_) return;
    Box nothing = box_;
    for (Range& range : nothing) range.end = range.begin;
    if (nothing.empty()) nothing.push_back({0, 0});  // a tensor without dims has no empty box, so add a dim
    transfers.push_back({source(data_[0], tensor_[0]), destination_, nothing, false});
  }

 private:
  int source(int d, int t) const { return from_.mesh.workers[d * from_.mesh.tensor + t]; }

  /// Appends one round per summand. A round covers the box once, with the pieces of all shards.
  void append_values(std::vector<TensorTransfer>& transfers) const {
    const std::vector<int> once{0};
    const std::vector<int>& data_summands = from_.data.is_partial() ? data_ : once;
    const std::vector<int>& tensor_summands = from_.tensor.is_partial() ? tensor_ : once;
    const std::vector<int>& data_shards = from_.data.is_partial() ? once : data_;
    const std::vector<int>& tensor_shards = from_.tensor.is_partial() ? once : tensor_;
    bool add = false;
    for (const int data_summand : data_summands) {
      for (const int tensor_summand : tensor_summands) {
        for (const int data_shard : data_shards) {
          for (const int tensor_shard : tensor_shards) {
            const int worker = source(from_.data.is_partial() ? data_summand : data_shard,
                                      from_.tensor.is_partial() ? tensor_summand : tensor_shard);
            Box piece = intersect(box_, from_.box_of(worker, shape_));
            if (!is_empty(piece)) transfers.push_back({worker, destination_, std::move(piece), add});
          }
        }
        add = true;
      }
    }
  }

  const Layout& from_;
  const Layout& to_;
  const Shape& shape_;
  const int destination_;
  const Box box_;
  bool is_holder_ = false;
  bool zeros_ = false;
  std::vector<int> data_, tensor_;  // indices on the source's axes that are read
};

/// The smallest degree of an axis with several workers. The kind of a redistribution is the same for all larger
/// degrees.
constexpr int kFewest = 2;

/// Returns the same placements on the smallest mesh on which the same axes have several workers.
Layout on_few(const Layout& layout) {
  Layout few = layout;
  few.mesh.data = std::min(layout.mesh.data, kFewest);
  few.mesh.tensor = std::min(layout.mesh.tensor, kFewest);
  few.mesh.workers.resize(size_t(few.mesh.size()));
  std::iota(few.mesh.workers.begin(), few.mesh.workers.end(), 0);
  few.mesh.shares.clear();
  return few;
}

/// Returns a shape for which every shard of both layouts has the same size.
Shape even_shape(const Layout& from, const Layout& to) {
  int dims = 1;
  for (const Placement& placement : {from.data, from.tensor, to.data, to.tensor})
    dims = std::max(dims, placement.dim + 1);
  return Shape(dims, int64_t{1} * from.mesh.size() * to.mesh.size());
}

}  // namespace

const char* name_of(RedistributionKind kind) {
  switch (kind) {
    case RedistributionKind::none: return "none";
    case RedistributionKind::slice: return "slice";
    case RedistributionKind::all_gather: return "all_gather";
    case RedistributionKind::reduce_scatter: return "reduce_scatter";
    case RedistributionKind::all_reduce: return "all_reduce";
    case RedistributionKind::all_to_all: return "all_to_all";
    case RedistributionKind::send_receive: return "send_receive";
  }
  return "";
}

std::vector<TensorTransfer> plan_transfers(const Layout& from, const Layout& to, const Shape& shape) {
  std::vector<TensorTransfer> transfers;
  for (const int destination : to.mesh.workers) DestinationPlan(from, to, shape, destination).append(transfers);
  return transfers;
}

std::vector<TensorTransfer> transfers_to(int destination, const Layout& from, const Layout& to, const Shape& shape) {
  std::vector<TensorTransfer> transfers;
  DestinationPlan(from, to, shape, destination).append(transfers);
  return transfers;
}

RedistributionKind classify(const Layout& from, const Layout& to) {
  if (from.mesh == to.mesh && from.mesh.size() > kFewest * kFewest) return classify(on_few(from), on_few(to));
  const std::set<int> senders(from.mesh.workers.begin(), from.mesh.workers.end());
  const std::set<int> receivers(to.mesh.workers.begin(), to.mesh.workers.end());
  if (senders != receivers) return RedistributionKind::send_receive;
  const Shape shape = even_shape(from, to);
  bool moves = false, adds = false;
  for (const TensorTransfer& transfer : plan_transfers(from, to, shape)) {
    moves |= transfer.source != transfer.destination;
    adds |= transfer.add;
  }
  bool same_boxes = true, keeps_own = true;  // keeps_own: no worker loses a part of its region
  for (const int worker : to.mesh.workers) {
    const Box before = from.box_of(worker, shape), after = to.box_of(worker, shape);
    same_boxes &= before == after;
    keeps_own &= intersect(before, after) == before;
  }
  if (!moves) return same_boxes ? RedistributionKind::none : RedistributionKind::slice;
  if (adds) return keeps_own ? RedistributionKind::all_reduce : RedistributionKind::reduce_scatter;
  return keeps_own ? RedistributionKind::all_gather : RedistributionKind::all_to_all;
}

int64_t bytes_sent_by(int worker, const std::vector<TensorTransfer>& transfers, int64_t bytes_per_element) {
  int64_t elements = 0;
  for (const TensorTransfer& transfer : transfers)
    if (transfer.source == worker && transfer.destination != worker) elements += element_count(shape_of(transfer.box));
  return elements * bytes_per_element;
}

std::vector<int> all_reduce_group(const Layout& from, const Layout& to, int worker) {
  const auto sums_up = [](const Placement& a, const Placement& b) { return a.is_partial() && b.is_replicate(); };
  const bool data = sums_up(from.data, to.data), tensor = sums_up(from.tensor, to.tensor);
  const Mesh& mesh = from.mesh;
  if (mesh != to.mesh || mesh.index_of(worker) < 0) return {};
  if (!(data || from.data == to.data) || !(tensor || from.tensor == to.tensor)) return {};
  std::vector<int> group;
  if (data && tensor) group = mesh.workers;
  if (data && !tensor) group = mesh.data_group(worker);
  if (!data && tensor) group = mesh.tensor_group(worker);
  std::sort(group.begin(), group.end());
  return group.size() > 1 ? group : std::vector<int>{};
}

}  // namespace trireme
