#include "data/images/resize.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace trireme {
namespace {

constexpr int kWeightBits = 22;  // sums of bytes times weights stay below 2^31
constexpr int32_t kHalf = 1 << (kWeightBits - 1);

/// Output i of an axis is the sum over k of weights[i * taps + k] * input[first[i] + k], in units of 2^-22.
struct AxisWeights {
  int64_t taps = 0;
  std::vector<int64_t> first;
  std::vector<int64_t> count;  ///< number of taps in use
  std::vector<int32_t> weights;
};

/// A part of an axis of `pixels` pixels.
struct AxisPart {
  int64_t pixels = 0;
  double first = 0;
  double length = 0;
};

/// Returns the weights of outputs begin .. begin + n - 1 of a part that is resized to `to` pixels.
AxisWeights axis_weights(const AxisPart& from, int64_t to, int64_t begin, int64_t n) {
  const double scale = from.length / double(to), radius = std::max(scale, 1.0);
  AxisWeights axis;
  axis.taps = static_cast<int64_t>(std::ceil(radius)) * 2 + 1;
  axis.weights.assign(static_cast<size_t>(n * axis.taps), 0);
  std::vector<double> shares(static_cast<size_t>(axis.taps));
  for (int64_t i = 0; i < n; ++i) {
    const double centre = from.first + (double(begin + i) + 0.5) * scale;
    const int64_t first = std::max<int64_t>(0, static_cast<int64_t>(centre - radius + 0.5));
    const double end = centre + radius + 0.5;  // cut off, as Pillow does
    const int64_t count = std::min<int64_t>(from.pixels, static_cast<int64_t>(end)) - first;
    double sum = 0;
    for (int64_t k = 0; k < count; ++k)
      sum += shares[size_t(k)] = std::max(0.0, 1.0 - std::abs((double(first + k) - centre + 0.5) / radius));
    for (int64_t k = 0; k < count; ++k)
      axis.weights[size_t(i * axis.taps + k)] =
          static_cast<int32_t>(std::lround(shares[size_t(k)] / sum * (1 << kWeightBits)));
    axis.first.push_back(first);
    axis.count.push_back(count);
  }
  return axis;
}

uint8_t to_byte(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255)); }

/// Resizes one row. C is a constant so that the loops over channels unroll.
template <int C>
void resize_row(const uint8_t* from, const AxisWeights& axis, uint8_t* to) {
  for (size_t i = 0; i < axis.first.size(); ++i) {
    const uint8_t* pixel = from + axis.first[i] * C;
    const int32_t* weight = axis.weights.data() + i * static_cast<size_t>(axis.taps);
    int32_t sum[C];
    std::fill_n(sum, C, kHalf);
    for (int64_t k = 0; k < axis.count[i]; ++k)
      for (int c = 0; c < C; ++c) sum[c] += weight[k] * pixel[k * C + c];
    for (int c = 0; c < C; ++c) to[static_cast<int64_t>(i) * C + c] = to_byte(sum[c]);
  }
}

}  // namespace

void resize_bilinear(const ImageView& image, ImageSize full, const Rectangle& window, uint8_t* to,
                     const std::optional<ExactRectangle>& part) {
  const ExactRectangle from = part.value_or(ExactRectangle{0, 0, double(image.size.height), double(image.size.width)});
  const AxisWeights columns = axis_weights({image.size.width, from.x, from.width}, full.width, window.x, window.width);
  const AxisWeights rows = axis_weights({image.size.height, from.y, from.height}, full.height, window.y, window.height);
  const int64_t first_row = rows.first.front(), end_row = rows.first.back() + rows.count.back();
  const auto row_bytes = static_cast<size_t>(window.width * image.channels);
  std::vector<uint8_t> narrow(static_cast<size_t>(end_row - first_row) * row_bytes);
  for (int64_t y = first_row; y < end_row; ++y) {
    uint8_t* row = narrow.data() + static_cast<size_t>(y - first_row) * row_bytes;
    if (image.channels == 3) resize_row<3>(image.row(y), columns, row);
    else resize_row<1>(image.row(y), columns, row);
  }
  std::vector<int32_t> sums(row_bytes);
  for (int64_t i = 0; i < window.height; ++i) {
    std::fill(sums.begin(), sums.end(), kHalf);
    for (int64_t k = 0; k < rows.count[size_t(i)]; ++k) {
      const int32_t weight = rows.weights[size_t(i * rows.taps + k)];
      const uint8_t* row = narrow.data() + static_cast<size_t>(rows.first[size_t(i)] + k - first_row) * row_bytes;
      for (size_t b = 0; b < row_bytes; ++b) sums[b] += weight * row[b];
    }
    uint8_t* row = to + static_cast<size_t>(i) * row_bytes;
    std::transform(sums.begin(), sums.end(), row, to_byte);
  }
}

}  // namespace trireme
