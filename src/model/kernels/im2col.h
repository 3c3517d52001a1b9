// Unfolds channels_last images into rows, so that a convolution becomes one matrix product; and the adjoint. Rows are
// copied or added `channels` contiguous elements at a time. Single-threaded. Thread-safe.
#pragma once

#include <cstdint>

namespace trireme::kernels {

/// Images [n, height, width, channels]. Taps are the kernel positions that are unfolded: [tap_y0, tap_y1) x [tap_x0,
/// tap_x1).
struct Unfolding {
  int64_t n = 0, height = 0, width = 0, channels = 0;
  int64_t out_height = 0, out_width = 0, stride_y = 1, stride_x = 1, padding_y = 0, padding_x = 0;
  int64_t tap_y0 = 0, tap_y1 = 0, tap_x0 = 0, tap_x1 = 0;

  int64_t taps() const { return (tap_y1 - tap_y0) * (tap_x1 - tap_x0); }
  int64_t rows() const { return n * out_height * out_width; }
  int64_t columns() const { return taps() * channels; }
};

/// Fills rows()[columns()]: for each output pixel the inputs under its taps, zero outside the image. `element_size`:
/// bytes per element.
void unfold(const Unfolding& shape, const void* images, void* rows, int64_t element_size);

/// The adjoint: each pixel is the sum of the row entries that came from it. bfloat16 entries are added in float and
/// rounded once.
void fold(const Unfolding& shape, const float* rows, float* images);
void fold(const Unfolding& shape, const double* rows, double* images);
void fold_bfloat16(const Unfolding& shape, const uint16_t* rows, uint16_t* images);

}  // namespace trireme::kernels
