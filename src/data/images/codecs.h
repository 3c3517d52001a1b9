// Functions of the two formats that image_file.cpp uses. Errors as in image_file.h.
#pragma once

#include <filesystem>
#include <string>

#include "data/images/image.h"

namespace trireme {

/// Throws a user error in one line for an image that cannot be decoded. `position` < 0: not known.
[[noreturn]] void fail_image(const std::filesystem::path& file, const char* format, Bytes bytes, int64_t position,
                             std::string why);

/// User error for a size without pixels or above kMaxImagePixels.
void check_image_size(const std::filesystem::path& file, const char* format, Bytes bytes, ImageSize size);

ImageSize jpeg_size(Bytes bytes, const std::filesystem::path& file);
Image decode_jpeg(Bytes bytes, const std::filesystem::path& file, int64_t channels, int reduce);

enum class PngKind { image, mask };
ImageSize png_size(Bytes bytes, const std::filesystem::path& file, PngKind kind);
Image decode_png(Bytes bytes, const std::filesystem::path& file, PngKind kind, int64_t channels);

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
