#include "data/images/generated_digits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <thread>
#include <vector>

#include "base/random.h"
#include "data/images/digit_strokes.h"

namespace trireme {
namespace {

constexpr int kSide = static_cast<int>(kDigitSide);
constexpr float kGlyphSize = 20;          // pixels of the unit square of a glyph before scaling
constexpr uint64_t kNoiseCounter = 1024;  // counters below it draw a sample's parameters
constexpr int64_t kMaxThreads = 8;
constexpr float kTwoPi = 2 * std::numbers::pi_v<float>;

using Canvas = std::array<float, static_cast<size_t>(kSide* kSide)>;  ///< ink per pixel, 0 to 1

/// The random numbers of one sample, in order.
class Dice {
 public:
  Dice(const Philox& random, int64_t sample) : random_(random), sample_(static_cast<uint64_t>(sample)) {}

  float between(float low, float high) {
    return low + (high - low) * static_cast<float>(random_.uniform(next_++, sample_));
  }
  size_t choice(size_t n) {
    return std::min(n - 1, static_cast<size_t>(random_.uniform(next_++, sample_) * static_cast<double>(n)));
  }

 private:
  const Philox& random_;
  uint64_t sample_;
  uint64_t next_ = 0;
};

struct Pen {
  float radius = 1;    ///< pixels
  float softness = 1;  ///< pixels over which the edge fades
  float ink = 1;
};

/// Draws a thick line. Ink does not add up where lines cross. Only pixels near the line are visited.
void draw_line(Canvas& canvas, Point a, Point b, const Pen& pen) {
  const float reach = pen.radius + pen.softness;
  const int left = std::max(0, static_cast<int>(std::floor(std::min(a.x, b.x) - reach)));
  const int right = std::min(kSide - 1, static_cast<int>(std::ceil(std::max(a.x, b.x) + reach)));
  const int top = std::max(0, static_cast<int>(std::floor(std::min(a.y, b.y) - reach)));
  const int bottom = std::min(kSide - 1, static_cast<int>(std::ceil(std::max(a.y, b.y) + reach)));
  const float dx = b.x - a.x, dy = b.y - a.y;
  const float inverse_length = 1 / std::max(dx * dx + dy * dy, 1e-12f);
  for (int y = top; y <= bottom; ++y)
    for (int x = left; x <= right; ++x) {
      const float px = static_cast<float>(x) - a.x, py = static_cast<float>(y) - a.y;
      const float t = std::clamp((px * dx + py * dy) * inverse_length, 0.0f, 1.0f);
      const float ex = px - t * dx, ey = py - t * dy;
      const float edge = (pen.radius - std::sqrt(ex * ex + ey * ey)) / pen.softness + 0.5f;
      float& ink = canvas[static_cast<size_t>(y * kSide + x)];
      ink = std::max(ink, pen.ink * std::clamp(edge, 0.0f, 1.0f));
    }
}

/// Maps the glyph's unit square to pixels: a bend, then slant, scale, rotation and shift.
struct Warp {
  float bend_x, bend_y, phase_x, phase_y;
  float xx, xy, yx, yy;
  float shift_x, shift_y;

  explicit Warp(Dice& dice) {
    bend_x = dice.between(-0.06f, 0.06f);
    bend_y = dice.between(-0.06f, 0.06f);
    phase_x = dice.between(0, kTwoPi);
    phase_y = dice.between(0, kTwoPi);
    const float angle = dice.between(-0.3f, 0.3f), slant = dice.between(-0.3f, 0.3f);
    const float scale_x = kGlyphSize * dice.between(0.65f, 1.1f), scale_y = kGlyphSize * dice.between(0.7f, 1.1f);
    const float c = std::cos(angle), s = std::sin(angle);
    xx = c * scale_x;
    xy = c * slant * scale_x - s * scale_y;
    yx = s * scale_x;
    yy = s * slant * scale_x + c * scale_y;
    shift_x = kSide / 2.0f - 0.5f + dice.between(-2.5f, 2.5f);
    shift_y = kSide / 2.0f - 0.5f + dice.between(-2.5f, 2.5f);
  }

  Point operator()(Point p) const {
    const float u = p.x - 0.5f + bend_x * std::sin(4 * p.y + phase_x);
    const float v = p.y - 0.5f + bend_y * std::sin(4 * p.x + phase_y);
    return {xx * u + xy * v + shift_x, yx * u + yy * v + shift_y};
  }
};

void add_stray_mark(Canvas& canvas, Dice& dice) {
  const float side = static_cast<float>(kSide);
  const Point a{dice.between(0, side), dice.between(0, side)};
  const float angle = dice.between(0, kTwoPi), length = dice.between(3, 8);
  const Pen pen{dice.between(0.4f, 0.9f), 1, dice.between(0.3f, 0.8f)};
  draw_line(canvas, a, {a.x + length * std::cos(angle), a.y + length * std::sin(angle)}, pen);
}

/// Adds noise and converts to bytes. The noise is close to normal: the sum of the four bytes of a random word, centred,
/// has deviation 147.8.
void to_bytes(const Canvas& canvas, float noise, const Philox& random, int64_t sample, uint8_t* pixels) {
  const float per_unit = 255 * noise / 147.8f;
  for (size_t i = 0; i < canvas.size(); i += 4) {
    auto words = random(kNoiseCounter + i, static_cast<uint64_t>(sample));
    for (size_t j = 0; j < 4; ++j) {
      const uint32_t w = words[j];
      const auto sum = static_cast<float>((w & 255) + (w >> 8 & 255) + (w >> 16 & 255) + (w >> 24)) - 510.0f;
      pixels[i + j] = static_cast<uint8_t>(std::clamp(255 * canvas[i + j] + per_unit * sum + 0.5f, 0.0f, 255.0f));
    }
  }
}

/// Draws sample `index` and returns its label.
uint8_t draw_sample(const Philox& random, int64_t index, uint8_t* pixels) {
  Dice dice(random, index);
  const size_t digit = dice.choice(10);
  const auto& styles = digit_glyphs()[digit];
  const Glyph& glyph = styles[dice.choice(styles.size())];
  const Warp warp(dice);
  const Pen pen{dice.between(0.7f, 1.9f), dice.between(0.8f, 2.0f), dice.between(0.55f, 1.0f)};
  const float noise = dice.between(0, 0.12f);
  Canvas canvas{};
  for (const Stroke& stroke : glyph)
    for (size_t i = 1; i < stroke.size(); ++i) draw_line(canvas, warp(stroke[i - 1]), warp(stroke[i]), pen);
  constexpr float kStrayShare = 0.3f;
  if (dice.between(0, 1) < kStrayShare) add_stray_mark(canvas, dice);
  to_bytes(canvas, noise, random, index, pixels);
  return static_cast<uint8_t>(digit);
}

}  // namespace

Images generate_digits(DigitSplit split, int64_t count, uint64_t seed) {
  Images images{.channels = 1, .height = kDigitSide, .width = kDigitSide, .pixels = {}, .labels = {}};
  images.labels.resize(static_cast<size_t>(count));
  images.pixels.resize(static_cast<size_t>(count * images.image_bytes()));
  const Philox random(random_key(seed, split == DigitSplit::train ? "digits/train" : "digits/test"));
  const int64_t cores = std::max<int64_t>(1, std::thread::hardware_concurrency());
  const int64_t threads = std::clamp<int64_t>(count / 256, 1, std::min(cores, kMaxThreads));
  auto draw_share = [&](int64_t share) {
    for (int64_t i = count * share / threads; i < count * (share + 1) / threads; ++i)
      images.labels[static_cast<size_t>(i)] = draw_sample(random, i, images.pixels.data() + i * images.image_bytes());
  };
  std::vector<std::jthread> others;
  for (int64_t share = 1; share < threads; ++share) others.emplace_back(draw_share, share);
  draw_share(0);
  others.clear();  // joins
  return images;
}

Normalization digit_normalization() { return {{0.1132}, {0.2249}}; }

}  // namespace trireme
