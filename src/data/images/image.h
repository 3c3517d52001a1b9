// Images as bytes, row by row, the channels of a pixel next to each other.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trireme {

using Bytes = std::span<const uint8_t>;  ///< the bytes of an image file

constexpr int64_t kMaxImagePixels = int64_t{1} << 28;  ///< a file whose header states more is considered damaged

/// In pixels.
struct ImageSize {
  int64_t height = 0;
  int64_t width = 0;

  int64_t area() const { return height * width; }
  bool operator==(const ImageSize&) const = default;
};

/// A rectangle of pixels; empty where height is 0.
struct Rectangle {
  int64_t y = 0;
  int64_t x = 0;
  int64_t height = 0;
  int64_t width = 0;

  ImageSize size() const { return {height, width}; }
  bool operator==(const Rectangle&) const = default;
};

/// A rectangle whose edges may lie inside pixels.
struct ExactRectangle {
  double y = 0;
  double x = 0;
  double height = 0;
  double width = 0;
};

/// [height, width, channels] bytes, or a rectangle of them. Does not own the pixels.
struct ImageView {
  const uint8_t* pixels = nullptr;
  ImageSize size;
  int64_t channels = 0;
  int64_t row_bytes = 0;  ///< bytes from one row to the next

  const uint8_t* row(int64_t y) const { return pixels + y * row_bytes; }
  /// `box` must lie inside.
  ImageView part(const Rectangle& box) const {
    return {row(box.y) + box.x * channels, box.size(), channels, row_bytes};
  }
};

/// [height, width, channels]
struct Image {
  ImageSize size;
  int64_t channels = 0;
  std::vector<uint8_t> pixels;

  ImageView view() const { return {pixels.data(), size, channels, size.width * channels}; }
};

}  // namespace trireme
