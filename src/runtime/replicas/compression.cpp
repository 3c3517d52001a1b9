#include "runtime/replicas/compression.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <cmath>

#include "base/devices/device.h"
#include "base/memory.h"
#include "base/random.h"
#include "trireme/error.h"

namespace trireme {
namespace {

// Relative norm of a column after its part along the other columns is removed, below which it is rounding noise even in
// double.
constexpr double kDependent = 1e-12;

double dot(const double* a, const double* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

at::Tensor matrix_in(const at::Tensor& flat, int64_t offset, int64_t rows, int64_t columns) {
  return flat.narrow(0, offset, rows * columns).view({rows, columns});
}

}  // namespace

bool sends_factors(const Program& program, const Bucket& bucket, const ParameterShard& shard) {
  return program.compression.kind == Compression::Kind::powersgd && program.training && bucket.holders.size() > 1 &&
         !bucket.contributors.empty() && PowerSgd::pays(shape_of(shard.box), program.compression.rank);
}

bool stores_bf16(const Program& program, const Bucket& bucket) {
  return program.compression.kind == Compression::Kind::bf16_stored && !bucket.full_precision;
}

void all_reduce_as_bfloat16(at::Tensor& flat, Communicator& group) {
  at::Tensor narrow = flat.to(at::kBFloat16);
  group.all_reduce(narrow);
  flat.copy_(narrow);
}

std::vector<int64_t> orthonormalise_columns(at::Tensor& matrix) {
  const int64_t rows = matrix.size(0), count = matrix.size(1);
  at::Tensor wide =
      matrix.t().to(at::kCPU, at::kDouble, /*non_blocking=*/false, /*copy=*/true).contiguous();  // columns become rows
  std::vector<int64_t> dependent;
  for (int64_t c = 0; c < count; ++c) {
    double* column = wide.data_ptr<double>() + c * rows;
    const double before = std::sqrt(dot(column, column, rows));
    for (int pass = 0; pass < 2; ++pass) {  // the second pass removes what rounding in the first left
      for (int64_t earlier = 0; earlier < c; ++earlier) {
        const double* other = wide.data_ptr<double>() + earlier * rows;
        const double along = dot(column, other, rows);
        for (int64_t i = 0; i < rows; ++i) column[i] -= along * other[i];
      }
    }
    const double after = std::sqrt(dot(column, column, rows));
    const bool drop = after <= kDependent * before;  // false for NaN, which must stay visible
    if (drop) dependent.push_back(c);
    for (int64_t i = 0; i < rows; ++i) column[i] = drop ? 0 : column[i] / after;
  }
  matrix.copy_(wide.t());
  return dependent;
}

bool PowerSgd::pays(const Shape& shape, int rank) {
  if (shape.size() < 2 || element_count(shape) == 0) return false;
  const int64_t elements = element_count(shape), rows = shape[0];
  return rank * (rows + elements / rows) < elements;
}

PowerSgd::PowerSgd(const Bucket& bucket, int rank, bool contributes, at::ScalarType dtype)
    : rank_(rank), contributes_(contributes), options_(on_worker(dtype)) {
  check_internal(rank >= 1, fmt::format("PowerSGD has a rank of at least 1, not {}", rank));
  MemoryScope scope(MemoryCategory::gradients);
  for (size_t s = 0; s < bucket.shards.size(); ++s) {
    const ParameterShard& shard = bucket.shards[s];
    const Shape shape = shape_of(shard.box);
    if (!pays(shape, rank)) {
      plain_.push_back({shard.offset, shard.offset + shard.size()});
      plain_elements_ += shard.size();
      continue;
    }
    Matrix matrix;
    matrix.shard = int(s);
    matrix.region = fmt::format("{}", shard.parameter);
    for (const Range& range : shard.box) matrix.region += fmt::format("/{}-{}", range.begin, range.end);
    matrix.offset = shard.offset;
    matrix.rows = shape[0];
    matrix.columns = shard.size() / shape[0];
    matrix.q = at::zeros({matrix.columns, rank_}, options_);
    if (contributes) matrix.error = at::zeros({matrix.rows, matrix.columns}, options_);
    left_elements_ += matrix.rows * rank_;
    right_elements_ += matrix.columns * rank_;
    matrices_.push_back(std::move(matrix));
  }
}

void PowerSgd::draw(Matrix& matrix, int64_t column, int64_t reductions) {
  const Philox random(matrix.key);
  at::Tensor values = at::empty({matrix.columns}, at::kDouble);
  for (int64_t i = 0; i < matrix.columns; ++i)
    values.data_ptr<double>()[i] = random.normal(uint64_t(i * rank_ + column), uint64_t(reductions));
  matrix.q.select(1, column).copy_(values);
}

void PowerSgd::initialize(uint64_t seed, int64_t reductions) {
  reductions_ = reductions;
  for (Matrix& matrix : matrices_) {
    matrix.key = random_key(seed, "powersgd/" + matrix.region);
    for (int64_t c = 0; c < rank_; ++c) draw(matrix, c, 0);
    if (matrix.error.defined()) matrix.error.zero_();
  }
}

std::vector<FactorPiece> PowerSgd::pieces() const {
  std::vector<FactorPiece> pieces;
  pieces.reserve(matrices_.size());
  for (const Matrix& matrix : matrices_)
    pieces.push_back({matrix.shard, matrix.error.defined() ? matrix.error.view({-1}) : at::Tensor(), matrix.q});
  return pieces;
}

/// Adds the gradient to the errors, which become M_i. Returns all M_i Q, then the plain shards.
at::Tensor PowerSgd::project(const at::Tensor& flat) {
  if (!contributes_) return at::zeros({left_elements_ + plain_elements_}, options_);
  at::Tensor left = at::empty({left_elements_ + plain_elements_}, options_);
  int64_t at = 0;
  for (Matrix& matrix : matrices_) {
    matrix.error.add_(matrix_in(flat, matrix.offset, matrix.rows, matrix.columns));
    at::Tensor p = matrix_in(left, at, matrix.rows, rank_);
    at::mm_out(p, matrix.error, matrix.q);
    at += matrix.rows * rank_;
  }
  for (const Range& range : plain_) {
    left.narrow(0, at, range.size()).copy_(flat.narrow(0, range.begin, range.size()));
    at += range.size();
  }
  return left;
}

/// `left`: all P, orthonormal. Returns all Q_i and updates the errors.
at::Tensor PowerSgd::project_back(const at::Tensor& left) {
  if (!contributes_) return at::zeros({right_elements_}, options_);
  at::Tensor right = at::empty({right_elements_}, options_);
  int64_t left_at = 0, right_at = 0;
  for (Matrix& matrix : matrices_) {
    const at::Tensor p = matrix_in(left, left_at, matrix.rows, rank_);
    at::Tensor q = matrix_in(right, right_at, matrix.columns, rank_);
    at::mm_out(q, matrix.error.t(), p);
    matrix.error.addmm_(p, q.t(), 1, -1);
    left_at += matrix.rows * rank_;
    right_at += matrix.columns * rank_;
  }
  return right;
}

void PowerSgd::decompress(const at::Tensor& left, const at::Tensor& right, at::Tensor& flat) {
  int64_t left_at = 0, right_at = 0;
  for (Matrix& matrix : matrices_) {
    matrix.q.copy_(matrix_in(right, right_at, matrix.columns, rank_));
    at::Tensor sum = matrix_in(flat, matrix.offset, matrix.rows, matrix.columns);
    at::mm_out(sum, matrix_in(left, left_at, matrix.rows, rank_), matrix.q.t());
    left_at += matrix.rows * rank_;
    right_at += matrix.columns * rank_;
  }
  for (const Range& range : plain_) {
    flat.narrow(0, range.begin, range.size()).copy_(left.narrow(0, left_at, range.size()));
    left_at += range.size();
  }
}

void PowerSgd::all_reduce(at::Tensor& flat, Communicator& group) {
  const at::NoGradGuard no_grad;
  MemoryScope scope(MemoryCategory::gradients);
  at::Tensor left = project(flat);
  group.all_reduce(left);
  std::vector<std::vector<int64_t>> dependent;
  int64_t at = 0;
  for (const Matrix& matrix : matrices_) {
    at::Tensor p = matrix_in(left, at, matrix.rows, rank_);
    dependent.push_back(orthonormalise_columns(p));
    at += matrix.rows * rank_;
  }
  at::Tensor right;
  if (!matrices_.empty()) {
    right = project_back(left);
    group.all_reduce(right);
  }
  decompress(left, right, flat);
  ++reductions_;
  // The gradient has no part in these directions now. Newly drawn columns may find a part later; columns of zeros never
  // would.
  for (size_t m = 0; m < matrices_.size(); ++m)
    for (int64_t column : dependent[m]) draw(matrices_[m], column, reductions_);
}

}  // namespace trireme
