// Samples divided over the workers of a mesh, each of which holds its own only: the ds-tensor of Vazquez-Novoa et al., "Scalable
// neural network training: distributed data-parallel approaches" (WACCPD 2025). Here every sample is in exactly one block, whatever
// the sizes, and a shuffle moves samples between all blocks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "tensor/placement.h"

namespace trireme {

/// `samples` cut into a grid of blocks: block (i, j) is the (i * columns + j)-th slice. All slices have block_samples but the last
/// that is not empty, which has the rest, and those after it, which have none.
struct BlockGrid {
  int64_t samples = 0;
  int64_t rows = 1;
  int64_t columns = 1;
  int64_t block_samples = 1;

  int64_t blocks() const { return rows * columns; }
  Range range(int64_t row, int64_t column) const;  ///< of samples
  friend bool operator==(const BlockGrid&, const BlockGrid&) = default;
};

/// The grid of this many blocks whose sizes are as equal as a short last one allows. User error: no rows or columns.
BlockGrid grid_of(int64_t samples, int64_t rows, int64_t columns);
/// The grid of blocks of `block_samples`, with as many rows as that takes. User error: neither samples per block nor columns.
BlockGrid grid_of_blocks(int64_t samples, int64_t block_samples, int64_t columns = 1);

/// One worker's part of a tensor whose dim 0 is divided into blocks. Block (i, j) lies on the worker at (i mod data, j mod tensor) of
/// the mesh, as in a two-dimensional block-cyclic distribution; on a mesh of W x 1 and a grid of one column these are blocks t, t + W,
/// ... of worker t. Used by its worker's thread only. Copies share their values, see apply.
///
/// Operations marked collective are called by all ranks of the communicator, in the same order, with equal arguments; they throw a
/// run error where another rank has failed.
class DistributedTensor {
 public:
  /// Copies this worker's blocks out of `full`. `mesh.workers` are ranks of `world`, which must outlive the tensor. No communication:
  /// all workers see a tensor of one shape and dtype, but only their own blocks need values.
  static DistributedTensor from_tensor(const at::Tensor& full, const BlockGrid& grid, const Mesh& mesh, Communicator& world);

  /// The samples of all files, one after the other, in blocks of `block_samples` (which may begin in one file and end in the next).
  /// Files: .npy, or .npz, .pt and .safetensors with a tensor `name`. Of a .npy a worker reads what it holds; the others are read
  /// whole, one at a time. No communication. User errors: those of the readers, files whose samples differ in shape or dtype.
  static DistributedTensor from_files(const std::vector<std::filesystem::path>& files, const std::string& name, int64_t block_samples,
                                      int64_t columns, const Mesh& mesh, Communicator& world);

  const BlockGrid& grid() const { return grid_; }
  const Mesh& mesh() const { return mesh_; }
  int64_t size() const { return grid_.samples; }                       ///< samples of all workers
  Shape sample_shape() const { return local_.sizes().slice(1).vec(); }
  at::ScalarType dtype() const { return local_.scalar_type(); }

  /// The rank that holds a block.
  int owner(int64_t row, int64_t column) const;
  bool holds(int64_t row, int64_t column) const { return owner(row, column) == world_->rank(); }
  /// A block of this worker, a view. Errors: internal, where another worker holds it.
  at::Tensor block(int64_t row, int64_t column) const;
  /// All of this worker's samples, block by block, and their indices in the whole.
  const at::Tensor& local() const { return local_; }
  std::vector<int64_t> local_indices() const;

  /// Collective. A tensor of f(block) for every block that has samples; f keeps the number of samples and gives samples of one shape
  /// and dtype everywhere, which a worker without samples learns from the others. User error: it does not.
  DistributedTensor map(const std::function<at::Tensor(const at::Tensor&)>& f) const;
  /// Calls f on this worker's blocks that have samples, to change them in place: seen through copies of this object too.
  void apply(const std::function<void(at::Tensor&)>& f);

  /// Collective. The same samples in the same order, in another grid.
  DistributedTensor rechunk(const BlockGrid& grid) const;
  /// Collective. The whole tensor, on every rank.
  at::Tensor gather() const;

  /// Collective. Samples in the order of sample_order(n, seed, epoch): a permutation of all of them that depends on neither blocks nor
  /// workers. Tensors of one length shuffled with equal arguments keep their samples together.
  DistributedTensor shuffled(uint64_t seed, int64_t epoch) const;

  /// Collective. One tensor after the other, in `grid`. User errors: samples of different shapes or dtypes, a grid of another size.
  static DistributedTensor cat(std::span<const DistributedTensor> parts, const BlockGrid& grid);

 private:
  struct Place {
    int worker = 0;
    int64_t position = 0;  ///< in the worker's local samples, where it is this one
  };

  DistributedTensor(const BlockGrid& grid, const Mesh& mesh, Communicator& world);
  Place place_of(int64_t sample) const;
  static DistributedTensor exchange(std::span<const DistributedTensor> parts, const std::function<int64_t(int64_t)>& source_of,
                                    const BlockGrid& grid);

  BlockGrid grid_;
  Mesh mesh_;
  Communicator* world_;
  std::vector<int64_t> first_;  ///< by block: where it begins in local_; -1: another worker's
  at::Tensor local_;
};

/// Collective. Samples and their targets in one new order, as DistributedTensor::shuffled. User error: different numbers of samples.
std::pair<DistributedTensor, DistributedTensor> shuffle(const DistributedTensor& data, const DistributedTensor& target, uint64_t seed,
                                                        int64_t epoch);

}  // namespace trireme
