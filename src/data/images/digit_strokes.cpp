#include "data/images/digit_strokes.h"

#include <cmath>
#include <numbers>

namespace trireme {
namespace {

constexpr float kDegreesPerPiece = 18;

/// Returns part of an ellipse around (x, y), from one angle to another; 0 is right, 90 is down.
Stroke arc(float x, float y, float rx, float ry, float from, float to) {
  const int pieces = static_cast<int>(std::ceil(std::abs(to - from) / kDegreesPerPiece));
  Stroke stroke;
  for (int i = 0; i <= pieces; ++i) {
    float angle =
        (from + (to - from) * static_cast<float>(i) / static_cast<float>(pieces)) * std::numbers::pi_v<float> / 180;
    stroke.push_back({x + rx * std::cos(angle), y + ry * std::sin(angle)});
  }
  return stroke;
}

/// Returns an 8 in one stroke.
Stroke crossed_loops() {
  constexpr int kPieces = 28;
  Stroke stroke;
  for (int i = 0; i <= kPieces; ++i) {
    float t = 2 * std::numbers::pi_v<float> * static_cast<float>(i) / kPieces;
    stroke.push_back({0.5f + 0.24f * std::sin(2 * t), 0.5f - 0.42f * std::cos(t)});
  }
  return stroke;
}

Stroke join(Stroke first, const Stroke& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

std::array<std::vector<Glyph>, 10> build() {
  std::array<std::vector<Glyph>, 10> g;
  g[0] = {{arc(.5f, .5f, .28f, .42f, 0, 360)}, {arc(.5f, .5f, .21f, .42f, -70, 310)}};
  g[1] = {{{{.5f, .08f}, {.5f, .92f}}},
          {{{.34f, .28f}, {.52f, .08f}, {.52f, .92f}}},
          {{{.36f, .26f}, {.52f, .08f}, {.52f, .92f}}, {{.3f, .92f}, {.74f, .92f}}}};
  g[2] = {{join(arc(.5f, .32f, .25f, .24f, 190, 385), {{.24f, .92f}, {.78f, .92f}})},
          {join(join(arc(.5f, .32f, .25f, .24f, 200, 385), arc(.34f, .83f, .09f, .07f, 30, 320)),
                {{.58f, .9f}, {.8f, .84f}})}};
  g[3] = {{join(arc(.46f, .29f, .25f, .21f, 200, 450), arc(.46f, .71f, .28f, .21f, 270, 520))},
          {join({{.24f, .1f}, {.74f, .1f}, {.46f, .42f}}, arc(.46f, .67f, .28f, .25f, 270, 520))}};
  g[4] = {{{{.3f, .08f}, {.22f, .56f}, {.8f, .56f}}, {{.66f, .3f}, {.62f, .92f}}},
          {{{.64f, .92f}, {.64f, .08f}, {.2f, .64f}, {.84f, .64f}}}};
  g[5] = {{join({{.76f, .1f}, {.32f, .1f}, {.29f, .45f}}, arc(.46f, .66f, .28f, .26f, 235, 510))},
          {join({{.34f, .14f}, {.3f, .45f}}, arc(.46f, .68f, .26f, .25f, 235, 500)), {{.34f, .14f}, {.8f, .1f}}}};
  g[6] = {{join(arc(.74f, .66f, .5f, .58f, 262, 180), arc(.5f, .68f, .26f, .24f, 180, -180))},
          {join({{.62f, .06f}, {.34f, .44f}}, arc(.5f, .69f, .24f, .23f, 205, -160))}};
  g[7] = {{{{.22f, .1f}, {.78f, .1f}, {.42f, .92f}}},
          {{{.22f, .1f}, {.78f, .1f}, {.44f, .92f}}, {{.34f, .52f}, {.74f, .52f}}},
          {{{.22f, .2f}, {.25f, .1f}, {.76f, .1f}, {.54f, .48f}, {.46f, .92f}}}};
  g[8] = {{arc(.5f, .29f, .21f, .2f, 90, 450), arc(.5f, .71f, .26f, .22f, -90, 270)}, {crossed_loops()}};
  g[9] = {{join(arc(.5f, .31f, .24f, .23f, 0, -360), {{.7f, .92f}})},
          {join(arc(.5f, .31f, .24f, .23f, -10, -360), arc(.36f, .4f, .38f, .52f, -10, 75))}};
  return g;
}

}  // namespace

const std::array<std::vector<Glyph>, 10>& digit_glyphs() {
  static const std::array<std::vector<Glyph>, 10> glyphs = build();
  return glyphs;
}

}  // namespace trireme
