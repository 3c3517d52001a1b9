// Gradients on their way between replicas in fewer bytes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "program/program.h"
#include "trireme/communicator.h"

namespace trireme {

/// Sums a flat gradient over `group` in place: each summand is rounded to bfloat16, they are added in float32 in rank
/// order and the sum is rounded to bfloat16. Half the bytes of float32; same bits on every rank.
void all_reduce_as_bfloat16(at::Tensor& flat, Communicator& group);

/// PowerSGD (Vogels, Karimireddy, Jaggi: "PowerSGD: practical low-rank gradient compression for distributed
/// optimization", NeurIPS 2019, algorithms 1 and 2) for the shards of one bucket, with error feedback and warm start.
///
/// The paper averages the workers' gradients; Trireme's are summands of the global gradient, so everything here is a
/// sum. A shard of two dims or more is a matrix [rows, columns] = [dim 0, the rest in memory order]. With worker i's
/// summand G_i, its error E_i (0 at first) and Q [columns, r], equal on all workers:
///     M_i = G_i + E_i
///     P = sum of M_i Q                  all-reduce of rows * r elements
///     P = orthonormal columns of P      in double, the same bits everywhere
///     Q_i = M_i^T P;  Q = sum of Q_i    all-reduce of columns * r elements
///     D = P Q^T                         used as the sum of the gradients; Q stays for the next step
///     E_i = M_i - P Q_i^T
/// so that D + sum of E_i = sum of M_i: nothing is lost, only late. Errors and gradients are in the bucket's master
/// dtype. Shards for which it does not pay, vectors above all, are summed as they are. The errors take as much memory
/// as the gradient does.
///
/// Belongs to one worker. All workers of the group construct theirs from the same bucket and call the same functions.
class PowerSgd {
 public:
  /// `contributes`: whether this worker has a summand; if not it needs no memory for errors.
  PowerSgd(const Bucket& bucket, int rank, bool contributes, at::ScalarType dtype);

  /// Draws the first Q: a function of (seed, name, shard) that is equal on all workers.
  void initialize(uint64_t seed, const std::string& name);

  /// `flat`: the whole bucket; this worker's summand before (ignored where it does not contribute), D after. Two
  /// all-reduces.
  void all_reduce(at::Tensor& flat, Communicator& group);

  /// Whether a shard of this shape is sent as factors of rank `rank`: they have fewer elements than the shard.
  static bool pays(const Shape& shape, int rank);

 private:
  struct Matrix {
    int shard = 0;
    int64_t offset = 0, rows = 0, columns = 0;
    at::Tensor q;      ///< [columns, r]
    at::Tensor error;  ///< [rows, columns]; undefined where this worker does not contribute
    uint64_t key = 0;
    std::vector<uint64_t> draws;  ///< by column of q: how often it was drawn
  };
  void draw(Matrix& matrix, int64_t column);
  at::Tensor project(const at::Tensor& flat);
  at::Tensor project_back(const at::Tensor& left);
  void decompress(const at::Tensor& left, const at::Tensor& right, at::Tensor& flat);

  int64_t rank_;
  bool contributes_;
  at::TensorOptions options_;
  std::vector<Matrix> matrices_;
  std::vector<Range> plain_;    ///< of the bucket: shards that are sent as they are
  int64_t left_elements_ = 0;   ///< of all P
  int64_t right_elements_ = 0;  ///< of all Q
  int64_t plain_elements_ = 0;
};

/// Makes the columns of `matrix` [rows, r] (float or double) orthonormal, by Gram-Schmidt in double, each column twice.
/// A column that depends on those before it becomes zero; returns the indices of those. Same input, same bits.
std::vector<int64_t> orthonormalise_columns(at::Tensor& matrix);

}  // namespace trireme
