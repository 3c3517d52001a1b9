#include "data/images/resize.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "image_writer.h"
#include "support.h"

namespace trireme {
namespace {

using namespace trireme::test_support;

Image random_image(ImageSize size, int64_t channels, uint32_t seed) {
  return {size, channels, random_bytes(static_cast<size_t>(size.area() * channels), seed)};
}

std::vector<uint8_t> resized(const ImageView& image, ImageSize to) {
  std::vector<uint8_t> out(static_cast<size_t>(to.area() * image.channels));
  resize_bilinear(image, to, {0, 0, to.height, to.width}, out.data());
  return out;
}

/// Weight of input pixel `j` in output `i` of an axis: a triangle around the centre of the output, before division by
/// the sum of all weights.
double share(int64_t i, int64_t j, double scale) {
  const double radius = std::max(scale, 1.0);
  return std::max(0.0, 1 - std::abs(double(j) + 0.5 - (double(i) + 0.5) * scale) / radius);
}

/// Oracle: the two-dimensional weighted mean in double precision, without separate axes and without rounding.
double mean_at(const ImageView& image, ImageSize to, int64_t y, int64_t x, int64_t c) {
  const double down = double(image.size.height) / double(to.height),
               across = double(image.size.width) / double(to.width);
  double sum = 0, weights = 0;
  for (int64_t v = 0; v < image.size.height; ++v)
    for (int64_t u = 0; u < image.size.width; ++u) {
      const double weight = share(y, v, down) * share(x, u, across);
      sum += weight * image.row(v)[u * image.channels + c];
      weights += weight;
    }
  return sum / weights;
}

TEST(ResizeBilinear, IsTheWeightedMeanUpAndDown) {
  uint32_t seed = 1;
  for (int64_t channels : {1, 3})
    for (auto [from, to] : {std::pair<ImageSize, ImageSize>{{11, 7}, {5, 3}},
                            {{5, 3}, {11, 7}},
                            {{16, 16}, {4, 20}},
                            {{1, 9}, {3, 2}},
                            {{8, 8}, {8, 5}},
                            {{37, 21}, {1, 1}},
                            {{2, 1}, {9, 9}}}) {
      const Image image = random_image(from, channels, ++seed);
      const auto out = resized(image.view(), to);
      for (int64_t y = 0; y < to.height; ++y)
        for (int64_t x = 0; x < to.width; ++x)
          for (int64_t c = 0; c < channels; ++c)
            ASSERT_NEAR(out[static_cast<size_t>((y * to.width + x) * channels + c)], mean_at(image.view(), to, y, x, c),
                        1.01)
                << from.height << "x" << from.width << " to " << to.height << "x" << to.width << ", seed " << seed;
    }
}

TEST(ResizeBilinear, KeepsAnImageOfTheSameSizeAndAPlainOne) {
  const Image image = random_image({6, 9}, 3, 9);
  EXPECT_EQ(resized(image.view(), {6, 9}), image.pixels);
  const Image plain{{5, 7}, 1, std::vector<uint8_t>(35, 200)};
  for (ImageSize to : {ImageSize{2, 3}, {13, 4}})
    EXPECT_EQ(resized(plain.view(), to), std::vector<uint8_t>(static_cast<size_t>(to.area()), 200));
}

TEST(ResizeBilinear, GivesWindowsOfTheWholeAndReadsPartsInPlace) {
  const Image image = random_image({30, 40}, 3, 4);
  const ImageSize full{12, 17};
  const auto whole = resized(image.view(), full);
  for (Rectangle window : {Rectangle{0, 0, 12, 17}, {3, 5, 4, 6}, {11, 16, 1, 1}}) {
    std::vector<uint8_t> out(static_cast<size_t>(window.size().area() * 3));
    resize_bilinear(image.view(), full, window, out.data());
    for (int64_t y = 0; y < window.height; ++y) {
      const auto row = whole.begin() + ((window.y + y) * full.width + window.x) * 3;
      ASSERT_TRUE(std::equal(row, row + window.width * 3, out.begin() + y * window.width * 3));
    }
  }
  const Rectangle part{7, 9, 20, 11};
  Image copy{part.size(), 3, {}};
  for (int64_t y = 0; y < part.height; ++y) {
    const uint8_t* row = image.view().row(part.y + y) + 3 * part.x;
    copy.pixels.insert(copy.pixels.end(), row, row + 3 * part.width);
  }
  EXPECT_EQ(resized(image.view().part(part), full), resized(copy.view(), full));
}

TEST(NearestSource, IsThePixelUnderTheCentre) {
  for (int64_t from : {1, 2, 5, 7, 64})
    for (int64_t to : {1, 3, 5, 8, 100})
      for (int64_t i = 0; i < to; ++i)
        ASSERT_EQ(nearest_source(i, from, to),
                  static_cast<int64_t>(std::floor((double(i) + 0.5) * double(from) / double(to) + 1e-9)));
}

}  // namespace
}  // namespace trireme
