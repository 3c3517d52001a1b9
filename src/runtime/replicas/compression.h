// Compression of the gradients that replicas exchange.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "program/program.h"
#include "trireme/communicator.h"

namespace trireme {

/// What PowerSGD keeps of one shard from step to step, in the worker's own memory.
struct FactorPiece {
  int shard = 0;      ///< index into Bucket::shards
  at::Tensor error;   ///< flat, in the bucket's order of elements; undefined if the worker does not contribute
  at::Tensor factor;  ///< Q: [columns, r]; equal on all holders
};

/// True if the shard's gradients are sent as factors of PowerSGD.
bool sends_factors(const Program& program, const Bucket& bucket, const ParameterShard& shard);

/// True if workers add up and store their own gradients of the bucket in bfloat16.
bool stores_bf16(const Program& program, const Bucket& bucket);

/// Sums a flat gradient over `group` in place. Each summand is rounded to bfloat16; the summands are added in float32
/// in rank order; the sum is rounded to bfloat16. Half the bytes of float32. The result has the same bits on every
/// rank.
void all_reduce_as_bfloat16(at::Tensor& flat, Communicator& group);

/// PowerSGD (Vogels, Karimireddy, Jaggi: "PowerSGD: practical low-rank gradient compression for distributed
/// optimization", NeurIPS 2019, algorithms 1 and 2) for the shards of one bucket, with error feedback and warm start.
///
/// The paper averages the workers' gradients. Trireme's gradients are summands of the global gradient, so everything
/// here is a sum. A shard of two dims or more is a matrix [rows, columns] = [dim 0, the other dims in memory order].
/// Worker i has a summand G_i and an error E_i (0 at first); Q [columns, r] is equal on all workers:
///     M_i = G_i + E_i
///     P = sum of M_i Q                  all-reduce of rows * r elements
///     P = orthonormal columns of P      in double, the same bits everywhere
///     Q_i = M_i^T P;  Q = sum of Q_i    all-reduce of columns * r elements
///     D = P Q^T                         used as the sum of the gradients; Q stays for the next step
///     E_i = M_i - P Q_i^T
/// so that D + sum of E_i = sum of M_i: nothing is lost, only delayed. D depends on the sum of M_i only, so the workers
/// may share out the sum of E_i in any other way, also among another number of workers: D stays the same. Errors and
/// gradients are in the bucket's master dtype. Shards for which compression does not pay, above all vectors, are summed
/// uncompressed. The errors take as much memory as the gradient.
///
/// Belongs to one worker. All workers of the group must construct it from the same bucket and call the same functions.
class PowerSgd {
 public:
  /// `contributes`: true if this worker has a summand. Otherwise it allocates no memory for errors.
  PowerSgd(const Bucket& bucket, int rank, bool contributes, at::ScalarType dtype);

  /// Draws the first Q as a function of the seed and each shard's parameter and region, so that it depends neither on
  /// the worker nor on the bucket, which depends on where a pipeline is cut. `reductions`: how many were made before,
  /// by other objects. The caller then writes their sum of errors, shared out, and their Q to pieces().
  void initialize(uint64_t seed, int64_t reductions = 0);

  /// The shards that are sent as factors, in order. Valid between two reductions.
  std::vector<FactorPiece> pieces() const;

  /// `flat` is the whole bucket: this worker's summand before the call (ignored if it does not contribute), D after the
  /// call. Makes two all-reduces.
  void all_reduce(at::Tensor& flat, Communicator& group);

  /// True if a shard of this shape is sent as factors of rank `rank`: they have fewer elements than the shard.
  static bool pays(const Shape& shape, int rank);

 private:
  struct Matrix {
    std::string region;  ///< index of the parameter in the program, and the part of it
    int shard = 0;
    int64_t offset = 0, rows = 0, columns = 0;
    at::Tensor q;      ///< [columns, r]
    at::Tensor error;  ///< [rows, columns]; undefined if this worker does not contribute
    uint64_t key = 0;
  };
  /// Draws a column of Q as a function of the reductions so far.
  void draw(Matrix& matrix, int64_t column, int64_t reductions);
  at::Tensor project(const at::Tensor& flat);
  at::Tensor project_back(const at::Tensor& left);
  void decompress(const at::Tensor& left, const at::Tensor& right, at::Tensor& flat);

  int64_t rank_;
  bool contributes_;
  int64_t reductions_ = 0;  ///< so far
  at::TensorOptions options_;
  std::vector<Matrix> matrices_;
  std::vector<Range> plain_;    ///< ranges of the bucket: shards that are sent uncompressed
  int64_t left_elements_ = 0;   ///< of all P together
  int64_t right_elements_ = 0;  ///< of all Q together
  int64_t plain_elements_ = 0;
};

/// Makes the columns of `matrix` [rows, r] (float or double) orthonormal by Gram-Schmidt in double, two passes per
/// column. A column that depends on earlier columns becomes zero; returns the indices of those columns. Same input,
/// same bits.
std::vector<int64_t> orthonormalise_columns(at::Tensor& matrix);

}  // namespace trireme
