// Size2d: one number for the rows and one for the columns of images: kernels, strides, paddings.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

/// Height before width, as in PyTorch. A single number sets both.
struct Size2d {
  int64_t height, width;

  constexpr Size2d(int64_t both)
      : height(both), width(both) {}  // NOLINT(google-explicit-constructor): options read .kernel = 3
  constexpr Size2d(int64_t h, int64_t w) : height(h), width(w) {}

  constexpr bool is_square() const { return height == width; }
  constexpr int64_t area() const { return height * width; }
  constexpr bool at_least(int64_t low) const { return height >= low && width >= low; }
  std::array<int64_t, 2> values() const { return {height, width}; }  ///< the form that ATen takes
  std::vector<int64_t> list() const { return {height, width}; }
  friend constexpr bool operator==(const Size2d&, const Size2d&) = default;
};

/// "3", or "1x7" if the two differ.
inline std::string to_string(const Size2d& size) {
  std::string text = std::to_string(size.height);
  if (!size.is_square()) text.append("x").append(std::to_string(size.width));
  return text;
}

}  // namespace trireme
