// The pen strokes of the ten digits.
#pragma once

#include <array>
#include <vector>

namespace trireme {

struct Point {
  float x = 0;  ///< 0 left .. 1 right
  float y = 0;  ///< 0 top .. 1 bottom
};
using Stroke = std::vector<Point>;  ///< a polyline
using Glyph = std::vector<Stroke>;  ///< one way to write a digit

/// Per digit, the ways to write it. Built once; immutable.
const std::array<std::vector<Glyph>, 10>& digit_glyphs();

}  // namespace trireme
