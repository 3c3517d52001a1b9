// Colour to grey.
#pragma once

#include "data/image.h"

namespace trireme {

/// RGB becomes its luma (ITU-R BT.601), rounded.
inline void to_grey(Image& image) {
  constexpr int kRed = 19595, kGreen = 38470, kBlue = 7471, kHalf = 1 << 15;  // 0.299, 0.587, 0.114 times 2^16
  const auto pixels = static_cast<size_t>(image.size.area());
  for (size_t p = 0; p < pixels; ++p) {
    const uint8_t* rgb = image.pixels.data() + 3 * p;
    image.pixels[p] = static_cast<uint8_t>((kRed * rgb[0] + kGreen * rgb[1] + kBlue * rgb[2] + kHalf) >> 16);
  }
  image.channels = 1;
  image.pixels.resize(pixels);
}

}  // namespace trireme
