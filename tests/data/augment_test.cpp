#include "data/images/augment.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "data/images/resize.h"
#include "image_writer.h"
#include "support.h"

namespace trireme {
namespace {

using namespace trireme::test_support;
using ::testing::HasSubstr;

constexpr int64_t kDraws = 20000;

const std::vector<float> kBytesAsTheyAre = normalization_table({{0, 0, 0}, {1.0 / 255, 1.0 / 255, 1.0 / 255}});

std::vector<float> rendered(const Image& image, const SampleView& view, ImageSize sample,
                            const std::vector<float>& table) {
  std::vector<float> out(static_cast<size_t>(sample.area() * image.channels), -99.0f);
  std::vector<uint8_t> scratch;
  render_image(image.view(), view, sample, table, out.data(), scratch);
  return out;
}

/// These draws must not change when other augmentations are added.
TEST(PadAndCrop, DrawsStayTheSame) {
  struct Shift {
    int64_t dy, dx;
    bool flip;
  };
  const Shift expected[] = {{-4, 1, true},   {-3, 4, false}, {4, 0, true},   {3, -3, false},
                            {-4, -1, false}, {4, -4, true},  {-1, 0, false}, {2, 3, true}};
  const Augmentation augmentation{.padding = 4, .flip = true};
  for (int64_t i = 0; i < 8; ++i) {
    const SampleView view = draw_view(augmentation, augmentation_random(5, 3), i, {32, 32}, {32, 32}, Fit::crop);
    EXPECT_EQ(view.dy, expected[i].dy) << i;
    EXPECT_EQ(view.dx, expected[i].dx) << i;
    EXPECT_EQ(view.flip, expected[i].flip) << i;
    EXPECT_EQ(view.full, (ImageSize{32, 32}));
  }
  const Augmentation more{.padding = 4, .flip = true, .cutout = 8, .mixup = 0.5};
  const SampleView view = draw_view(more, augmentation_random(5, 3), 7, {32, 32}, {32, 32}, Fit::crop);
  EXPECT_EQ(view.dy, 2) << "nor with others beside them";
  EXPECT_TRUE(view.flip);
}

TEST(FitImage, CropsTheMiddleOrStretches) {
  // In torchvision, Resize(64) makes 64x96 of 100x150, and CenterCrop(64) takes columns 16 to 79.
  SampleView view = fit_image({100, 150}, {64, 64}, Fit::crop);
  EXPECT_EQ(view.full, (ImageSize{64, 96}));
  EXPECT_EQ(view.dy, 0);
  EXPECT_EQ(view.dx, 16);
  view = fit_image({500, 333}, {224, 224}, Fit::crop);
  EXPECT_EQ(view.full, (ImageSize{336, 224}));  // int(224 * 500 / 333)
  EXPECT_EQ(view.dy, 56);
  EXPECT_EQ(fit_image({101, 64}, {64, 64}, Fit::crop).dy, 18);  // 18.5 is rounded to even
  view = fit_image({120, 160}, {60, 40}, Fit::crop);
  EXPECT_EQ(view.full, (ImageSize{60, 80}));
  EXPECT_EQ(view.dx, 20);
  view = fit_image({120, 160}, {60, 40}, Fit::stretch);
  EXPECT_EQ(view.full, (ImageSize{60, 40}));
  EXPECT_EQ(view.dx, 0);
  EXPECT_EQ(view.box, (Rectangle{0, 0, 120, 160}));
}

TEST(ResizedCrop, DrawsAreasEvenlyAndAspectsEvenlyOnALogScale) {
  const Augmentation augmentation{.resized_crop = RandomResizedCrop{}};
  const ImageSize image{600, 600};
  const Philox random = augmentation_random(1, 0);
  std::vector<double> areas, aspects;
  double mean_y = 0;
  for (int64_t i = 0; i < kDraws; ++i) {
    const SampleView view = draw_view(augmentation, random, i, image, {64, 64}, Fit::crop);
    const Rectangle& box = view.box;
    ASSERT_TRUE(box.y >= 0 && box.x >= 0 && box.y + box.height <= 600 && box.x + box.width <= 600);
    ASSERT_EQ(view.full, (ImageSize{64, 64}));
    areas.push_back(double(box.size().area()) / double(image.area()));
    aspects.push_back(std::log(double(box.width) / double(box.height)));
    mean_y += double(box.y) / std::max<double>(1, double(600 - box.height)) / double(kDraws);
  }
  const auto [least, most] = std::minmax_element(areas.begin(), areas.end());
  EXPECT_NEAR(*least, 0.08, 0.003);
  EXPECT_GT(*most, 0.98);
  // A box with up to 3/4 of the area always fits into the image, so these areas are drawn evenly.
  const auto below = [&](double a) {
    return double(std::count_if(areas.begin(), areas.end(), [a](double v) { return v < a; }));
  };
  EXPECT_NEAR(below(0.3) / below(0.7), (0.3 - 0.08) / (0.7 - 0.08), 0.015);
  const double mean = std::accumulate(aspects.begin(), aspects.end(), 0.0) / double(kDraws);
  EXPECT_NEAR(mean, 0, 0.01);
  const auto [narrow, wide] = std::minmax_element(aspects.begin(), aspects.end());
  EXPECT_NEAR(*narrow, std::log(0.75), 0.02);
  EXPECT_NEAR(*wide, std::log(4.0 / 3), 0.02);
  EXPECT_NEAR(mean_y, 0.5, 0.01);
}

TEST(ResizedCrop, FallsBackToTheMiddleOfStripes) {
  const Augmentation augmentation{.resized_crop = RandomResizedCrop{.least_area = 0.9}};
  SampleView view = draw_view(augmentation, augmentation_random(1, 0), 0, {10, 1000}, {64, 64}, Fit::crop);
  EXPECT_EQ(view.box, (Rectangle{0, 493, 10, 13}));  // 10 * 4 / 3
  view = draw_view(augmentation, augmentation_random(1, 0), 0, {1000, 12}, {64, 64}, Fit::crop);
  EXPECT_EQ(view.box, (Rectangle{492, 0, 16, 12}));
  view = draw_view(augmentation, augmentation_random(1, 0), 0, {1, 1}, {64, 64}, Fit::crop);
  EXPECT_EQ(view.box, (Rectangle{0, 0, 1, 1}));
}

TEST(ResizedCrop, AspectsAreRelativeToTheSample) {
  const RandomResizedCrop crop{.least_area = 0.2, .most_area = 0.3, .least_aspect = 1, .most_aspect = 1};
  const Augmentation augmentation{.resized_crop = crop};
  for (int64_t i = 0; i < 100; ++i) {
    const Rectangle box =
        draw_view(augmentation, augmentation_random(1, 0), i, {480, 640}, {120, 160}, Fit::stretch).box;
    ASSERT_NEAR(double(box.width) / double(box.height), 160.0 / 120, 0.01);
  }
}

TEST(RenderImage, ResizesMirrorsPadsAndCuts) {
  const Image image{{40, 50}, 3, random_bytes(6000, 7)};
  const ImageSize sample{16, 20};
  const Rectangle part{3, 4, 33, 44};
  std::vector<uint8_t> whole(static_cast<size_t>(18 * 22 * 3));
  resize_bilinear(image.view().part(part), {18, 22}, {0, 0, 18, 22}, whole.data());
  for (bool flip : {false, true})
    for (auto [dy, dx] : {std::pair<int64_t, int64_t>{1, 1}, {-3, 4}, {5, -6}, {30, 0}, {0, -25}}) {
      const SampleView view{.box = part, .full = {18, 22}, .dy = dy, .dx = dx, .flip = flip, .cut = {2, 3, 4, 5}};
      const auto out = rendered(image, view, sample, kBytesAsTheyAre);
      for (int64_t y = 0; y < 16; ++y)
        for (int64_t x = 0; x < 20; ++x)
          for (int64_t c = 0; c < 3; ++c) {
            const int64_t v = y + dy, u = (flip ? 19 - x : x) + dx;
            const bool inside = v >= 0 && v < 18 && u >= 0 && u < 22, cut = y >= 2 && y < 6 && x >= 3 && x < 8;
            const float expected = inside && !cut ? float(whole[static_cast<size_t>((v * 22 + u) * 3 + c)]) : 0.0f;
            ASSERT_NEAR(out[static_cast<size_t>((y * 20 + x) * 3 + c)], expected, 1e-4)
                << y << ", " << x << ", shift " << dy << ", " << dx;
          }
    }
}

TEST(RenderImage, PaddingIsBlackAndCutoutIsTheMean) {
  const Image image{{2, 2}, 1, {255, 255, 255, 255}};
  const auto table = normalization_table({{0.5}, {0.25}});
  const SampleView view{.box = {0, 0, 2, 2}, .full = {2, 2}, .dy = 1, .dx = 0, .cut = {0, 1, 1, 1}};
  EXPECT_EQ(rendered(image, view, {2, 2}, table), (std::vector<float>{2, 0, -2, -2}));
}

TEST(Cutout, IsASquareAroundAPixelCutOffAtTheEdge) {
  const Augmentation augmentation{.cutout = 4};
  const ImageSize sample{10, 12};
  std::map<std::pair<int64_t, int64_t>, int64_t> seen;
  for (int64_t i = 0; i < kDraws; ++i) {
    const Rectangle cut = draw_view(augmentation, augmentation_random(2, 1), i, sample, sample, Fit::crop).cut;
    ASSERT_TRUE(cut.y >= 0 && cut.x >= 0 && cut.y + cut.height <= 10 && cut.x + cut.width <= 12);
    ASSERT_TRUE(cut.height >= 2 && cut.width >= 2 && cut.height <= 4 && cut.width <= 4);
    ASSERT_TRUE(cut.height == 4 || cut.y == 0 || cut.y + cut.height == 10);
    ++seen[{cut.y + cut.height, cut.x + cut.width}];  // tells centres apart, except at the far edges
  }
  const double even = double(kDraws) / 120;
  EXPECT_NEAR(double(seen[{2, 2}]), even, 5 * std::sqrt(even));
  EXPECT_NEAR(double(seen[{5, 5}]), even, 5 * std::sqrt(even));
  EXPECT_NEAR(double(seen[{10, 12}]), 4 * even, 5 * std::sqrt(4 * even))
      << "two rows and columns of centres reach the far edges";
}

/// Share of a Beta(a, a) below 1/4, by Simpson's rule in a variable without a pole. Its mean is 1/2, its variance 1 /
/// (4 (2a + 1)).
double beta_below_quarter(double a) {
  auto integral = [a](double end) {  // of x^(a-1) (1-x)^(a-1), with x = t^(1/a), t from 0 to end^a
    const int n = 20000;
    const double step = std::pow(end, a) / n;
    double sum = 0;
    for (int i = 0; i <= n; ++i)
      sum += (i == 0 || i == n ? 1 : i % 2 ? 4 : 2) * std::pow(1 - std::pow(i * step, 1 / a), a - 1);
    return sum * step / 3 / a;
  };
  return integral(0.25) / (2 * integral(0.5));
}

TEST(Mixup, SharesAreBetaAndPartnersEven) {
  for (double alpha : {0.2, 1.0, 4.0}) {
    const Philox random = augmentation_random(3, 2);
    double sum = 0, squares = 0, below = 0;
    std::vector<int64_t> partners(10, 0);
    for (int64_t i = 0; i < kDraws; ++i) {
      const Mix mix = draw_mix(alpha, random, i, 10);
      ASSERT_TRUE(mix.own >= 0 && mix.own <= 1);
      sum += mix.own;
      squares += mix.own * mix.own;
      below += mix.own < 0.25;
      ++partners.at(static_cast<size_t>(mix.partner));
    }
    const double mean = sum / double(kDraws), variance = squares / double(kDraws) - mean * mean;
    EXPECT_NEAR(mean, 0.5, 0.012) << alpha;
    EXPECT_NEAR(variance, 1 / (4 * (2 * alpha + 1)), 0.004) << alpha;
    EXPECT_NEAR(below / double(kDraws), beta_below_quarter(alpha), 0.012) << alpha;
    for (int64_t n : partners) EXPECT_NEAR(double(n), double(kDraws) / 10, 5 * std::sqrt(double(kDraws) / 10));
  }
  EXPECT_FALSE(std::isnan(draw_mix(1e-5, augmentation_random(3, 2), 0, 10).own));
}

TEST(RenderMask, MovesWithTheImage) {
  // Columns encode their position: red in the image, one class per 16 columns in the mask.
  Image image{{64, 128}, 3, {}}, mask{{64, 128}, 1, {}};
  for (int64_t y = 0; y < 64; ++y)
    for (int64_t x = 0; x < 128; ++x) {
      image.pixels.insert(image.pixels.end(), {static_cast<uint8_t>(2 * x), static_cast<uint8_t>(4 * y), 255});
      mask.pixels.push_back(static_cast<uint8_t>(x / 16 + 8 * (y / 16)));
    }
  std::array<int64_t, 256> classes{};
  std::iota(classes.begin(), classes.end(), int64_t{100});
  const Augmentation augmentation{.padding = 5, .flip = true, .resized_crop = RandomResizedCrop{.least_area = 0.3}};
  const ImageSize sample{32, 64};
  int64_t padded = 0;
  for (int64_t i = 0; i < 200; ++i) {
    const SampleView view = draw_view(augmentation, augmentation_random(4, 0), i, image.size, sample, Fit::stretch);
    const auto pixels = rendered(image, view, sample, kBytesAsTheyAre);
    std::vector<int64_t> target(static_cast<size_t>(sample.area()));
    render_mask(mask.view(), view, sample, classes, -1, target.data());
    for (size_t p = 0; p < target.size(); ++p) {
      const float* rgb = pixels.data() + 3 * p;
      ASSERT_EQ(target[p] == -1, rgb[2] < 1) << "blue is missing where the padding is";
      padded += target[p] == -1;
      if (target[p] == -1) continue;
      const auto column = double((target[p] - 100) % 8) * 16 + 8, row = double((target[p] - 100) / 8) * 16 + 8;
      ASSERT_NEAR(rgb[0] / 2, column, 8 + 2.5) << "sample " << i;
      ASSERT_NEAR(rgb[1] / 4, row, 8 + 2.5) << "sample " << i;
    }
  }
  EXPECT_GT(padded, 0);
}

TEST(RenderMask, TakesTheNearestPixel) {
  const Image mask{{2, 3}, 1, {0, 1, 2, 3, 4, 5}};
  std::array<int64_t, 256> classes{};
  std::iota(classes.begin(), classes.end(), int64_t{0});
  std::vector<int64_t> target(12);
  render_mask(mask.view(), fit_image({2, 3}, {2, 6}, Fit::stretch), {2, 6}, classes, -1, target.data());
  EXPECT_EQ(target, (std::vector<int64_t>{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5}));
}

TEST(CheckAugmentation, NamesTheKey) {
  auto message = [](const Augmentation& a, bool masks = false) {
    return error_of([&] { check_augmentation(a, masks); });
  };
  EXPECT_THAT(message({.padding = -1}), HasSubstr("data.augmentation.padding: -1"));
  EXPECT_THAT(message({.cutout = -1}), HasSubstr("data.augmentation.cutout: -1"));
  EXPECT_THAT(message({.mixup = -0.5}), HasSubstr("data.augmentation.mixup: -0.5"));
  EXPECT_THAT(message({.mixup = std::nan("")}), HasSubstr("data.augmentation.mixup: nan"));
  EXPECT_THAT(message({.mixup = 0.2}, true), HasSubstr("not for segmentation"));
  EXPECT_THAT(message({.cutout = 2}, true), HasSubstr("not for segmentation"));
  EXPECT_THAT(message({.resized_crop = RandomResizedCrop{.least_area = 0}}),
              HasSubstr("data.augmentation.crop_area: 0"));
  EXPECT_THAT(message({.resized_crop = RandomResizedCrop{.most_area = 1.5}}),
              HasSubstr("data.augmentation.crop_area: 1.5"));
  EXPECT_THAT(message({.resized_crop = RandomResizedCrop{.least_aspect = 2}}),
              HasSubstr("data.augmentation.crop_aspect"));
  check_augmentation({.padding = 4, .flip = true, .resized_crop = RandomResizedCrop{}, .cutout = 16, .mixup = 1},
                     false);
}

TEST(CheckAugmentation, KnowsWhatIsTooLargeForTheImages) {
  auto message = [](const Augmentation& a) { return error_of([&] { check_augmentation_fits(a, {24, 32}); }); };
  check_augmentation_fits({.padding = 23, .cutout = 24}, {24, 32});
  EXPECT_THAT(message({.padding = 24}), HasSubstr("data.augmentation.padding: 24: images are 24x32 pixels: a crop "
                                                  "could be nothing but padding; use less than 24"));
  EXPECT_THAT(message({.cutout = 25}),
              HasSubstr("data.augmentation.cutout: 25: images are 24x32 pixels; use at most 24"));
}

}  // namespace
}  // namespace trireme
