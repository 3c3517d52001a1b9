#include "checkpoint/data_fingerprint.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <sstream>
#include <vector>

namespace trireme {
namespace {

constexpr int64_t kMostValues = int64_t{1} << 21, kChunkValues = int64_t{1} << 16, kChunkSamples = 256,
                  kDecodedSamples = 16;
constexpr const char *kRead = "samples", *kDecoded = "decoded samples";
/// Relative to the square root of the sum of squares. A value of a small table that changes moves a sum by more.
constexpr double kTolerance = 1e-6, kDecodedTolerance = 1e-2;

/// In [-1, 1), from the position of a value alone (the finalizer of SplitMix64).
double weight_at(uint64_t position) {
  uint64_t bits = (position + 1) * 0x9E3779B97F4A7C15;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB;
  bits ^= bits >> 31;
  return double(bits >> 11) * 0x1p-52 - 1;
}

/// A sum of values with weights and their sum of squares.
class Sums {
 public:
  void add(const at::Tensor& tensor) {
    const at::Tensor values = tensor.to(at::kDouble).contiguous();
    const double* value = values.data_ptr<double>();
    for (int64_t i = 0; i < values.numel(); ++i, ++position_) {
      if (!std::isfinite(value[i])) continue;
      weighted_ += weight_at(position_) * value[i];
      squares_ += value[i] * value[i];
    }
  }
  double weighted() const { return weighted_; }
  double size() const { return std::sqrt(squares_); }

 private:
  double weighted_ = 0, squares_ = 0;
  uint64_t position_ = 0;
};

struct Parts {
  std::string of;                       ///< "20640 of 20640 samples"
  std::array<double, 4> numbers = {0};  ///< of inputs and of targets: the weighted sum and the size
  bool readable = false;
};

Parts parts_of(const std::string& fingerprint) {
  Parts parts;
  const size_t colon = fingerprint.find(": ");
  if (colon == fingerprint.npos) return parts;
  parts.of = fingerprint.substr(0, colon);
  std::istringstream numbers(fingerprint.substr(colon + 1));
  for (double& number : parts.numbers) numbers >> number;
  parts.readable = bool(numbers);
  return parts;
}

}  // namespace

std::string data_fingerprint(const Dataset& set) {
  const int64_t size = set.size(),
                each = std::max<int64_t>(1, element_count(set.sample_shape()) + element_count(set.target_shape()));
  const int64_t most = set.decodes() ? kDecodedSamples : std::max(kDecodedSamples, kMostValues / each);
  const int64_t count = std::min(size, most), chunk = std::clamp<int64_t>(kChunkValues / each, 1, kChunkSamples);
  Sums inputs, targets;
  for (int64_t begin = 0; begin < count; begin += chunk) {
    std::vector<int64_t> indices;
    const int64_t end = std::min(count, begin + chunk);
    indices.reserve(size_t(end - begin));
    for (int64_t k = begin; k < end; ++k) indices.push_back(int64_t(double(k) * double(size) / double(count)));
    const Samples samples = set.get(indices, {});
    inputs.add(samples.data);
    targets.add(samples.target);
  }
  return fmt::format("{} of {} {}: {:.9g} {:.9g} {:.9g} {:.9g}", count, size, set.decodes() ? kDecoded : kRead,
                     inputs.weighted(), inputs.size(), targets.weighted(), targets.size());
}

bool is_same_data(const std::string& one, const std::string& other) {
  if (one == other) return true;
  const Parts a = parts_of(one), b = parts_of(other);
  if (!a.readable || !b.readable || a.of != b.of) return false;
  const double tolerance = a.of.ends_with(kDecoded) ? kDecodedTolerance : kTolerance;
  for (size_t k = 0; k < a.numbers.size(); ++k) {
    const size_t size = k / 2 * 2 + 1;  // of the inputs, of the targets
    const double scale = std::max(a.numbers[size], b.numbers[size]);
    if (std::abs(a.numbers[k] - b.numbers[k]) > tolerance * scale) return false;
  }
  return true;
}

}  // namespace trireme
