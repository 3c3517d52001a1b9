// What image_file.cpp needs of the two formats. Errors as in image_file.h.
#pragma once

#include <string>

#include "data/image_file.h"

namespace trireme {

/// One clear line for an image that cannot be decoded; `position` < 0: not known.
[[noreturn]] void fail_image(const std::filesystem::path& file, const char* format, Bytes bytes, int64_t position, std::string why);

/// User error for sizes of no pixels or above kMaxImagePixels.
void check_image_size(const std::filesystem::path& file, const char* format, Bytes bytes, ImageSize size);

ImageSize jpeg_size(Bytes bytes, const std::filesystem::path& file);
Image decode_jpeg(Bytes bytes, const std::filesystem::path& file, int64_t channels, int reduce);

enum class PngKind { image, mask };
ImageSize png_size(Bytes bytes, const std::filesystem::path& file, PngKind kind);
Image decode_png(Bytes bytes, const std::filesystem::path& file, PngKind kind, int64_t channels);

}  // namespace trireme
