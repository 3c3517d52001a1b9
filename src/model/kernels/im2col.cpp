#include "model/kernels/im2col.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/vector_code.h"

namespace trireme::kernels {
namespace {

TRIREME_CLONES void add_float(float* __restrict sum, const float* __restrict x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) sum[i] += x[i];
}
TRIREME_CLONES void add_double(double* __restrict sum, const double* __restrict x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) sum[i] += x[i];
}
TRIREME_CLONES void add_bfloat16(float* __restrict sum, const uint16_t* __restrict x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) sum[i] += float_of_bfloat16(x[i]);
}
TRIREME_CLONES void narrow(uint16_t* __restrict out, const float* __restrict in, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = bfloat16_of_float(in[i]);
}

void add(float* sum, const float* x, int64_t n) { add_float(sum, x, n); }
void add(double* sum, const double* x, int64_t n) { add_double(sum, x, n); }
void add(float* sum, const uint16_t* x, int64_t n) { add_bfloat16(sum, x, n); }

/// Taps of one dim that reach pixel `at`, as (tap, output position) pairs: output * stride - padding + tap == at.
struct Reach {
  int64_t tap, output;
};
std::vector<Reach> reaching(int64_t at, int64_t tap0, int64_t tap1, int64_t outputs, int64_t stride, int64_t padding) {
  std::vector<Reach> pairs;
  for (int64_t tap = tap0; tap < tap1; ++tap) {
    const int64_t offset = at + padding - tap;
    if (offset >= 0 && offset % stride == 0 && offset / stride < outputs) pairs.push_back({tap, offset / stride});
  }
  return pairs;
}

/// Calls `emit(image element offset, sum of `channels` values in Sum)` for every pixel.
template <class Sum, class Element, class Emit>
void fold_pixels(const Unfolding& u, const Element* rows, const Emit& emit) {
  std::vector<std::vector<Reach>> by_y, by_x;
  for (int64_t y = 0; y < u.height; ++y)
    by_y.push_back(reaching(y, u.tap_y0, u.tap_y1, u.out_height, u.stride_y, u.padding_y));
  for (int64_t x = 0; x < u.width; ++x)
    by_x.push_back(reaching(x, u.tap_x0, u.tap_x1, u.out_width, u.stride_x, u.padding_x));
  std::vector<Sum> sum(static_cast<size_t>(u.channels));
  const int64_t row_length = u.columns(), taps_x = u.tap_x1 - u.tap_x0;
  for (int64_t n = 0; n < u.n; ++n)
    for (int64_t y = 0; y < u.height; ++y)
      for (int64_t x = 0; x < u.width; ++x) {
        std::fill(sum.begin(), sum.end(), Sum(0));
        for (const Reach& ry : by_y[size_t(y)])
          for (const Reach& rx : by_x[size_t(x)]) {
            const int64_t row = (n * u.out_height + ry.output) * u.out_width + rx.output;
            const int64_t tap = (ry.tap - u.tap_y0) * taps_x + (rx.tap - u.tap_x0);
            add(sum.data(), rows + row * row_length + tap * u.channels, u.channels);
          }
        emit(((n * u.height + y) * u.width + x) * u.channels, sum.data());
      }
}

}  // namespace

void unfold(const Unfolding& u, const void* images, void* rows, int64_t element_size) {
  const auto* in = static_cast<const char*>(images);
  auto* out = static_cast<char*>(rows);
  if (u.tap_x0 == u.tap_x1) return;  // all taps see only padding: there are no rows and no memory for them
  const int64_t pixel = u.channels * element_size;
  for (int64_t n = 0; n < u.n; ++n)
    for (int64_t oy = 0; oy < u.out_height; ++oy)
      for (int64_t ox = 0; ox < u.out_width; ++ox)
        for (int64_t ty = u.tap_y0; ty < u.tap_y1; ++ty) {
          const int64_t y = oy * u.stride_y - u.padding_y + ty, x0 = ox * u.stride_x - u.padding_x + u.tap_x0;
          const int64_t taps = u.tap_x1 - u.tap_x0;
          // taps to the left of, inside and to the right of the image
          const int64_t left = y < 0 || y >= u.height ? taps : std::clamp<int64_t>(-x0, 0, taps);
          const int64_t inside = y < 0 || y >= u.height ? 0 : std::clamp<int64_t>(u.width - x0, left, taps) - left;
          std::memset(out, 0, size_t(left * pixel));
          if (inside > 0)
            std::memcpy(out + left * pixel, in + ((n * u.height + y) * u.width + x0 + left) * pixel,
                        size_t(inside * pixel));
          std::memset(out + (left + inside) * pixel, 0, size_t((taps - left - inside) * pixel));
          out += taps * pixel;
        }
}

void fold(const Unfolding& u, const float* rows, float* images) {
  fold_pixels<float>(u, rows, [&](int64_t at, const float* sum) {
    std::memcpy(images + at, sum, size_t(u.channels) * sizeof(float));
  });
}

void fold(const Unfolding& u, const double* rows, double* images) {
  fold_pixels<double>(u, rows, [&](int64_t at, const double* sum) {
    std::memcpy(images + at, sum, size_t(u.channels) * sizeof(double));
  });
}

void fold_bfloat16(const Unfolding& u, const uint16_t* rows, uint16_t* images) {
  fold_pixels<float>(u, rows, [&](int64_t at, const float* sum) { narrow(images + at, sum, u.channels); });
}

}  // namespace trireme::kernels
