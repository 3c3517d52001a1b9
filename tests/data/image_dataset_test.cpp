#include "data/images/image_dataset.h"

#include <ATen/ATen.h>

#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "support.h"

namespace trireme {
namespace {

using namespace trireme::test_support;

Images random_images(int64_t n, int64_t channels, int64_t height, int64_t width, uint32_t seed) {
  std::mt19937 random(seed);
  Images images{.channels = channels, .height = height, .width = width, .pixels = {}, .labels = {}};
  for (int64_t i = 0; i < n; ++i) images.labels.push_back(static_cast<uint8_t>(i % 10));
  for (int64_t i = 0; i < n * images.image_bytes(); ++i)
    images.pixels.push_back(static_cast<uint8_t>(1 + random() % 255));
  return images;
}

const Normalization kCifar{{0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}};

TEST(ImageDataset, NormalisesToValuesWorkedOutByHand) {
  Images grey{.channels = 1, .height = 1, .width = 2, .pixels = {0, 255}, .labels = {7}};
  ImageDataset mnist(grey, 10, {{0.1307}, {0.3081}});
  Samples samples = mnist.get(std::vector<int64_t>{0}, {});
  EXPECT_NEAR(samples.data[0][0][0][0].item<float>(), -0.4242129, 1e-6);  // -0.1307 / 0.3081
  EXPECT_NEAR(samples.data[0][0][0][1].item<float>(), 2.8214869, 1e-6);   // 0.8693 / 0.3081
  EXPECT_EQ(samples.target[0].item<int64_t>(), 7);

  Images colour{.channels = 3, .height = 1, .width = 1, .pixels = {51, 102, 255}, .labels = {0}};
  Samples pixel = ImageDataset(colour, 10, kCifar).get(std::vector<int64_t>{0}, {});
  EXPECT_NEAR(pixel.data[0][0][0][0].item<float>(), -1.1797571, 1e-6);  // (0.2 - 0.4914) / 0.2470
  EXPECT_NEAR(pixel.data[0][1][0][0].item<float>(), -0.3375770, 1e-6);  // (0.4 - 0.4822) / 0.2435
  EXPECT_NEAR(pixel.data[0][2][0][0].item<float>(), 2.1158257, 1e-6);   // (1 - 0.4465) / 0.2616
}

TEST(ImageDataset, GathersInChannelsLastOrder) {
  Images images = random_images(5, 3, 4, 6, 1);
  ImageDataset set(images, 10, {{0, 0, 0}, {1.0 / 255, 1.0 / 255, 1.0 / 255}});  // the value is the byte
  Samples samples = set.get(std::vector<int64_t>{4, 0, 4}, {});
  EXPECT_EQ(samples.data.sizes(), (std::vector<int64_t>{3, 3, 4, 6}));
  EXPECT_TRUE(samples.data.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_EQ(samples.target.dtype(), at::kLong);
  EXPECT_EQ(samples.target[2].item<int64_t>(), 4);
  auto value = samples.data.accessor<float, 4>();
  for (int64_t c = 0; c < 3; ++c)
    for (int64_t y = 0; y < 4; ++y)
      for (int64_t x = 0; x < 6; ++x)
        EXPECT_NEAR(value[2][c][y][x], images.pixels[static_cast<size_t>(((4 * 4 + y) * 6 + x) * 3 + c)], 1e-3);
}

// Centres of the new pixels are at 0.25, 0.75, 1.25 and 1.75 pixels of the old row.
TEST(ImageDataset, ResizesToValuesWorkedOutByHand) {
  const Images row{.channels = 1, .height = 1, .width = 2, .pixels = {0, 100}, .labels = {0}};
  const ImageDataset set(row, 10, {{0}, {1.0 / 255}}, {}, {2, 4});
  const at::Tensor expected = at::tensor({0.0f, 25.0f, 75.0f, 100.0f}).expand({1, 1, 2, 4});
  const at::Tensor data = set.get(std::vector<int64_t>{0}, {}).data;
  EXPECT_TRUE(at::allclose(data, expected, 0, 1e-4)) << data;
}

TEST(ImageDataset, AugmentsEachSampleAlikeInAnyBatch) {
  ImageDataset set(random_images(64, 3, 32, 32, 2), 10, kCifar, {4, true});
  std::vector<int64_t> all(64);
  std::iota(all.begin(), all.end(), 0);
  Draw draw{.seed = 5, .epoch = 3, .augment = true};
  at::Tensor together = set.get(all, draw).data;
  EXPECT_TRUE(at::equal(together, set.get(all, draw).data));
  for (int64_t i : {63, 0, 17}) EXPECT_TRUE(at::equal(together[i], set.get(std::vector<int64_t>{i}, draw).data[0]));
  EXPECT_FALSE(at::equal(together, set.get(all, {.seed = 5, .epoch = 4, .augment = true}).data));
  EXPECT_FALSE(at::equal(together, set.get(all, {.seed = 6, .epoch = 3, .augment = true}).data));
  at::Tensor plain = set.get(all, {.seed = 5, .epoch = 3, .augment = false}).data;
  EXPECT_FALSE(at::equal(together, plain));
  EXPECT_TRUE(at::equal(plain, ImageDataset(set.images(), 10, kCifar).get(all, draw).data))
      << "no augmentation configured";
}

/// Oracle: pad with libtorch; exactly one (dy, dx, flip) must give each augmented image.
TEST(ImageDataset, AugmentedImagesAreCropsAndFlipsOfThePaddedOnes) {
  for (int64_t channels : {1, 3}) {
    Images images = random_images(400, channels, 9, 7, 3);
    std::vector<double> zero(static_cast<size_t>(channels), 0.0), unit(static_cast<size_t>(channels), 1.0 / 255);
    ImageDataset set(images, 10, {zero, unit}, {2, true});
    std::vector<int64_t> all(400);
    std::iota(all.begin(), all.end(), 0);
    at::Tensor plain = set.get(all, {}).data, changed = set.get(all, {.seed = 1, .epoch = 0, .augment = true}).data;
    at::Tensor padded = at::constant_pad_nd(plain, {2, 2, 2, 2}, 0);
    std::set<std::tuple<int, int, int>> seen;
    for (int64_t i = 0; i < 400; ++i) {
      int explained = 0;
      for (int dy = 0; dy < 5; ++dy)
        for (int dx = 0; dx < 5; ++dx)
          for (int flip = 0; flip < 2; ++flip) {
            at::Tensor crop = padded[i].slice(1, dy, dy + 9).slice(2, dx, dx + 7);
            if (flip) crop = at::flip(crop, {2});
            if (!at::equal(crop, changed[i])) continue;
            ++explained;
            seen.insert({dy, dx, flip});
          }
      ASSERT_EQ(explained, 1) << "sample " << i;
    }
    EXPECT_EQ(seen.size(), 50u) << "every shift and flip occurs";
  }
}

/// Oracle: mixes the two samples of the set without mixup, by the shares that draw_mix gives.
TEST(ImageDataset, MixesSamplesAndTargetsAlike) {
  const Images images = random_images(40, 3, 8, 8, 6);
  const ImageDataset mixed(images, 10, kCifar, {.padding = 1, .flip = true, .mixup = 1});
  const ImageDataset plain(images, 10, kCifar, {.padding = 1, .flip = true});
  std::vector<int64_t> all(40);
  std::iota(all.begin(), all.end(), 0);
  const Draw draw{.seed = 3, .epoch = 2, .augment = true};
  const Samples samples = mixed.get(all, draw), apart = plain.get(all, draw);
  ASSERT_EQ(samples.target.sizes(), (std::vector<int64_t>{40, 10}));
  ASSERT_EQ(samples.target.dtype(), at::kFloat);
  EXPECT_TRUE(at::allclose(samples.target.sum(1), at::ones({40})));
  int64_t changed = 0;
  for (int64_t i = 0; i < 40; ++i) {
    const Mix mix = draw_mix(1, augmentation_random(3, 2), i, 40);
    const at::Tensor expected = mix.own * apart.data[i] + (1 - mix.own) * apart.data[mix.partner];
    EXPECT_TRUE(at::allclose(samples.data[i], expected, 1e-5, 1e-5)) << i;
    at::Tensor shares = at::zeros({10});
    shares[i % 10] += mix.own;
    shares[mix.partner % 10] += 1 - mix.own;
    EXPECT_TRUE(at::allclose(samples.target[i], shares, 1e-5, 1e-6)) << i;
    changed += mix.partner != i;
  }
  EXPECT_GT(changed, 30);
  const Samples some = mixed.get(std::vector<int64_t>{17, 3}, draw);
  EXPECT_TRUE(at::equal(some.data[0], samples.data[17])) << "whatever else is in the batch";
  EXPECT_TRUE(at::equal(some.target[1], samples.target[3]));
  const Samples evaluated = mixed.get(all, {});
  EXPECT_EQ(evaluated.target.dtype(), at::kLong);
  EXPECT_TRUE(at::equal(evaluated.data, plain.get(all, {}).data));
}

TEST(ImageDataset, CutsASquareOut) {
  const ImageDataset set(random_images(30, 3, 16, 16, 7), 10, kCifar, {.cutout = 6});
  std::vector<int64_t> all(30);
  std::iota(all.begin(), all.end(), 0);
  const at::Tensor plain = set.get(all, {}).data, cut = set.get(all, {.seed = 1, .epoch = 0, .augment = true}).data;
  for (int64_t i = 0; i < 30; ++i) {
    const Rectangle hole = draw_view({.cutout = 6}, augmentation_random(1, 0), i, {16, 16}, {16, 16}, Fit::crop).cut;
    at::Tensor expected = plain[i].clone();
    expected.slice(1, hole.y, hole.y + hole.height).slice(2, hole.x, hole.x + hole.width).zero_();
    EXPECT_TRUE(at::equal(cut[i], expected));
    EXPECT_GE(hole.size().area(), 9);
  }
}

TEST(ImageDataset, RefusesAnIndexOutside) {
  ImageDataset set(random_images(3, 1, 2, 2, 4), 10, {{0}, {1}});
  for (int64_t index : {-1, 3}) error_of([&] { set.get(std::vector<int64_t>{index}, {}); }, Blame::run);
  EXPECT_EQ(set.get({}, {}).data.size(0), 0);
}

TEST(ImageDataset, KeepsTheFirstSamples) {
  Images images = random_images(6, 1, 2, 2, 5), whole = images;
  images.keep_first(0);
  EXPECT_EQ(images.count(), 6);
  images.keep_first(2);
  EXPECT_EQ(images.count(), 2);
  EXPECT_EQ(images.pixels, std::vector<uint8_t>(whole.pixels.begin(), whole.pixels.begin() + 8));
}

}  // namespace
}  // namespace trireme
