#include "data/images/generated_digits.h"

#include <array>
#include <cmath>

#include "support.h"

namespace trireme {
namespace {

TEST(GeneratedDigits, DependOnSeedSplitAndIndexOnly) {
  Images many = generate_digits(DigitSplit::train, 3000, 1), few = generate_digits(DigitSplit::train, 100, 1);
  many.keep_first(100);
  EXPECT_EQ(many.pixels, few.pixels) << "the number of samples and of threads does not matter";
  EXPECT_EQ(many.labels, few.labels);
  EXPECT_NE(few.pixels, generate_digits(DigitSplit::train, 100, 2).pixels);
}

TEST(GeneratedDigits, TestImagesAreOthersThanTrainImages) {
  Images train = generate_digits(DigitSplit::train, 2000, 0), test = generate_digits(DigitSplit::test, 200, 0);
  double nearest_sum = 0;
  for (int64_t t = 0; t < test.count(); ++t) {
    double nearest = 1e30;
    for (int64_t i = 0; i < train.count(); ++i) {
      double distance = 0;
      for (int64_t p = 0; p < 784; ++p) {
        double d = double(train.pixels[size_t(i * 784 + p)]) - test.pixels[size_t(t * 784 + p)];
        distance += d * d;
      }
      nearest = std::min(nearest, distance / 784);
    }
    ASSERT_GT(nearest, 0) << "test image " << t << " is a train image";
    nearest_sum += std::sqrt(nearest);
  }
  EXPECT_GT(nearest_sum / 200, 15) << "of 255, root mean square";
}

TEST(GeneratedDigits, ClassesAreBalancedAndPixelsMatchTheirNormalisation) {
  Images images = generate_digits(DigitSplit::train, 10000, 0);
  std::array<int, 10> count{};
  for (uint8_t label : images.labels) ++count.at(label);
  for (int n : count) EXPECT_NEAR(n, 1000, 150);  // five standard deviations of a fair draw
  double sum = 0, squares = 0;
  for (uint8_t pixel : images.pixels) {
    sum += pixel / 255.0;
    squares += pixel / 255.0 * (pixel / 255.0);
  }
  const double mean = sum / double(images.pixels.size());
  const double deviation = std::sqrt(squares / double(images.pixels.size()) - mean * mean);
  EXPECT_NEAR(mean, digit_normalization().mean[0], 0.005);
  EXPECT_NEAR(deviation, digit_normalization().deviation[0], 0.005);
}

}  // namespace
}  // namespace trireme
