// How a tensor is distributed over the workers of a mesh. Terms are those of PyTorch's DTensor: Replicate, Shard(dim),
// Partial.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

using Shape = std::vector<int64_t>;

// The functions of this header are thread-safe. They do not check their arguments and do not throw, unless they say so.

std::string to_string(const Shape& shape);  ///< "[64, 3, 32, 32]"
int64_t element_count(const Shape& shape);  ///< the product of the dims; 1 for a shape without dims

/// Placement along one mesh axis: every worker has the whole tensor, a slice of one dim, or a summand.
struct Placement {
  enum class Kind { replicate, shard, partial };
  Kind kind = Kind::replicate;
  int dim = 0;  ///< the sharded dim; 0 unless kind == shard

  static Placement replicate() { return {}; }
  static Placement shard(int dim) { return {Kind::shard, dim}; }
  static Placement partial() { return {Kind::partial, 0}; }
  bool is_replicate() const { return kind == Kind::replicate; }
  bool is_shard() const { return kind == Kind::shard; }
  bool is_partial() const { return kind == Kind::partial; }
  friend bool operator==(const Placement&, const Placement&) = default;
};

std::string to_string(const Placement& placement);  ///< "Replicate", "Shard(1)", "Partial"

/// A half-open range of indices along one dim.
struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool empty() const { return end <= begin; }
  friend bool operator==(const Range&, const Range&) = default;
};

/// Returns the share of part `index` if `length` is divided into `parts`. Sizes differ by at most one; larger shares
/// come first. `parts` >= 1, 0 <= `index` < `parts`.
Range share_of(int64_t length, int parts, int index);

/// As above, in proportion to `weights` (positive, one per part). Part i ends at the rounded cumulative share.
/// 0 <= `index` < weights.size().
Range share_of(int64_t length, const std::vector<double>& weights, int index);

/// A rectangular region of a tensor: one range per dim.
using Box = std::vector<Range>;

Box whole(const Shape& shape);
/// Errors: internal, if the boxes have different numbers of dims.
Box intersect(const Box& a, const Box& b);
bool is_empty(const Box& box);  ///< true if a range is empty; a box without dims has one element
Shape shape_of(const Box& box);
/// Returns `inner` in the local indices of `outer`. Errors: internal, if they have different numbers of dims.
Box relative_to(const Box& inner, const Box& outer);

/// A grid of workers with axes `data` and `tensor`; `workers[d * tensor + t]` is the world rank at (d, t).
struct Mesh {
  std::vector<int> workers;
  int data = 1;
  int tensor = 1;
  std::vector<double> shares = {};  ///< relative sizes of the data shards; empty: equal

  int size() const { return data * tensor; }
  int index_of(int worker) const;  ///< position in `workers`, -1 if absent
  // the following: `worker` must be one of `workers`
  int data_index(int worker) const { return index_of(worker) / tensor; }
  int tensor_index(int worker) const { return index_of(worker) % tensor; }
  std::vector<int> data_group(int worker) const;    ///< same tensor index, ascending data index
  std::vector<int> tensor_group(int worker) const;  ///< same data index, ascending tensor index
  friend bool operator==(const Mesh&, const Mesh&) = default;
};

/// A tensor's placement on both axes of a mesh. The axes must not shard the same dim.
struct Layout {
  Mesh mesh;
  Placement data;
  Placement tensor;
  friend bool operator==(const Layout&, const Layout&) = default;

  /// Returns the region that `worker` holds of a tensor of global `shape` (the region of its summand if Partial).
  /// Errors: internal, if the mesh lacks the worker, if both axes shard one dim, or if a dim does not exist.
  Box box_of(int worker, const Shape& shape) const;
};

std::string to_string(const Layout& layout);  ///< "[Shard(0), Replicate] on 4x2"

/// The standard name of the communication that turns a tensor of one layout into one of another. `send_receive`:
/// between different workers (a stage boundary).
enum class RedistributionKind { none, slice, all_gather, reduce_scatter, all_reduce, all_to_all, send_receive };
const char* name_of(RedistributionKind kind);

}  // namespace trireme
