#include "data/images/augment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "data/images/resize.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr double kTwoToMinus32 = 1.0 / 4294967296.0;

/// Streams of a sample's random draws, which have the counters (index, stream). No two draws share a counter.
enum Stream : uint64_t {
  kShiftAndFlip = 0,
  kCutout = 1,
  kResizedCrop = 2,
  kPartner = 16,
  kOwnShare = 32,
  kPartnerShare = 96
};
constexpr uint64_t kCropAttempts = 10;  // streams kResizedCrop ..
// Streams kOwnShare .., kPartnerShare ..; the chance that all are rejected is 10^-80.
constexpr uint64_t kGammaAttempts = 64;

int64_t scaled(uint32_t word, int64_t n) {
  return static_cast<int64_t>((uint64_t{word} * static_cast<uint64_t>(n)) >> 32);
}

double uniform(uint32_t word) { return (word + 0.5) * kTwoToMinus32; }  // in (0, 1)

double between(double low, double high, uint32_t word) { return low + (high - low) * uniform(word); }

/// Returns the logarithm of a Gamma(shape, 1) draw. Marsaglia & Tsang, "A simple method for generating gamma
/// variables", 2000.
double log_gamma_draw(double shape, const Philox& random, int64_t index, uint64_t first_stream) {
  const double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (uint64_t attempt = 0; attempt < kGammaAttempts; ++attempt) {
    const auto words = random(static_cast<uint64_t>(index), first_stream + attempt);
    const double x = std::sqrt(-2 * std::log(uniform(words[0]))) * std::cos(2 * std::numbers::pi * uniform(words[1]));
    const double root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log(uniform(words[2])) >= 0.5 * x * x + d - d * v + d * std::log(v)) continue;
    return std::log(d * v) + (shape < 1 ? std::log(uniform(words[3])) / shape : 0);
  }
  return std::log(d);
}

/// Returns the side of a part: at least one pixel, at most the image's side.
int64_t side(double length, int64_t most) { return std::clamp<int64_t>(std::llround(length), 1, most); }

Rectangle draw_part(const RandomResizedCrop& crop, const Philox& random, int64_t index, ImageSize image,
                    ImageSize sample) {
  const double shape = double(sample.width) / double(sample.height);
  for (uint64_t attempt = 0; attempt < kCropAttempts; ++attempt) {
    const auto words = random(static_cast<uint64_t>(index), kResizedCrop + attempt);
    const double area = double(image.area()) * between(crop.least_area, crop.most_area, words[0]);
    const double aspect = shape * std::exp(between(std::log(crop.least_aspect), std::log(crop.most_aspect), words[1]));
    const int64_t width = std::llround(std::sqrt(area * aspect)), height = std::llround(std::sqrt(area / aspect));
    if (width < 1 || height < 1 || width > image.width || height > image.height) continue;
    return {scaled(words[2], image.height - height + 1), scaled(words[3], image.width - width + 1), height, width};
  }
  const double aspect = double(image.width) / double(image.height);
  const double permitted = std::clamp(aspect, shape * crop.least_aspect, shape * crop.most_aspect);
  Rectangle part{0, 0, image.height, image.width};
  if (aspect < permitted) part.height = side(double(image.width) / permitted, image.height);
  if (aspect > permitted) part.width = side(double(image.height) * permitted, image.width);
  part.y = (image.height - part.height) / 2;
  part.x = (image.width - part.width) / 2;
  return part;
}

/// Converts pixels of C channels. C is a constant so that the loops below unroll.
template <int C>
void convert(const uint8_t* from, float* to, int64_t pixels, const float* table) {
  for (int64_t i = 0; i < pixels; ++i)
    for (int c = 0; c < C; ++c) to[i * C + c] = table[from[i * C + c] * C + c];
}

/// Output (y, x) is input (y + dy, x + dx), black outside the input; then the output is mirrored if `flip`.
template <int C>
void convert_shifted(const ImageView& image, int64_t dy, int64_t dx, bool flip, ImageSize sample, const float* table,
                     float* to) {
  const int64_t width = sample.width;
  const int64_t begin = std::clamp<int64_t>(-dx, 0, width);  // output columns begin..end have a source
  const int64_t end = std::clamp<int64_t>(image.size.width - dx, begin, width);
  auto black = [&](float* at, int64_t pixels) {
    for (int64_t i = 0; i < pixels; ++i)
      for (int c = 0; c < C; ++c) at[i * C + c] = table[c];
  };
  for (int64_t y = 0; y < sample.height; ++y) {
    float* row = to + y * width * C;
    const int64_t source_y = y + dy;
    if (source_y < 0 || source_y >= image.size.height) {
      black(row, width);
      continue;
    }
    black(row, begin);
    if (begin < end) convert<C>(image.row(source_y) + (begin + dx) * C, row + begin * C, end - begin, table);
    black(row + end * C, width - end);
    if (!flip) continue;
    for (int64_t left = 0, right = width - 1; left < right; ++left, --right)
      for (int c = 0; c < C; ++c) std::swap(row[left * C + c], row[right * C + c]);
  }
}

/// Returns the input position of each output 0 .. n - 1 shifted by `shift`, on an axis of which `from` pixels at
/// `first` are resized to `to`. -1: outside.
std::vector<int64_t> nearest_sources(int64_t n, int64_t shift, int64_t first, int64_t from, int64_t to) {
  std::vector<int64_t> sources(static_cast<size_t>(n), -1);
  for (int64_t i = std::max<int64_t>(0, -shift); i < std::min(n, to - shift); ++i)
    sources[static_cast<size_t>(i)] = first + nearest_source(i + shift, from, to);
  return sources;
}

[[noreturn]] void fail_augmentation(const char* key, double value, std::string why, std::string next) {
  fail_user({.where = std::string("data.augmentation.") + key,
             .what = fmt::format("{:g}", value),
             .why = std::move(why),
             .next = std::move(next)});
}

}  // namespace

void check_augmentation(const Augmentation& augmentation, bool for_masks) {
  constexpr int64_t kMostPixels = 1 << 15;
  if (augmentation.padding < 0 || augmentation.padding > kMostPixels)
    fail_augmentation("padding", double(augmentation.padding), "it is a number of pixels",
                      "4 is usual for 32x32 images, 0 is none");
  if (augmentation.cutout < 0 || augmentation.cutout > kMostPixels)
    fail_augmentation("cutout", double(augmentation.cutout), "it is the side of a square in pixels",
                      "16 is usual for CIFAR-10, 0 is none");
  if (!(augmentation.mixup >= 0) || !std::isfinite(augmentation.mixup))
    fail_augmentation("mixup", augmentation.mixup, "it is the parameter of a Beta distribution",
                      "0.2 to 1 are usual, 0 is none");
  if (for_masks && augmentation.cutout > 0)
    fail_augmentation("cutout", double(augmentation.cutout), "it is for classification, not for segmentation",
                      "leave it out");
  if (for_masks && augmentation.mixup > 0)
    fail_augmentation("mixup", augmentation.mixup, "it is for classification, not for segmentation", "leave it out");
  if (!augmentation.resized_crop) return;
  const RandomResizedCrop& crop = *augmentation.resized_crop;
  if (!(crop.least_area > 0) || !(crop.least_area <= crop.most_area) || crop.most_area > 1)
    fail_augmentation("crop_area", crop.least_area > 0 ? crop.most_area : crop.least_area,
                      "areas are shares of the image, above 0 and up to 1, the lesser first", "[0.08, 1] is usual");
  if (!(crop.least_aspect > 0) || !(crop.least_aspect <= crop.most_aspect) || !std::isfinite(crop.most_aspect))
    fail_augmentation("crop_aspect", crop.least_aspect > 0 ? crop.most_aspect : crop.least_aspect,
                      "aspects are positive, the lesser first", "[0.75, 1.3333] is usual");
}

void check_augmentation_fits(const Augmentation& augmentation, ImageSize sample) {
  const int64_t side = std::min(sample.height, sample.width);
  const std::string images = fmt::format("images are {}x{} pixels", sample.height, sample.width);
  if (augmentation.padding >= side)
    fail_augmentation("padding", double(augmentation.padding), images + ": a crop could be nothing but padding",
                      fmt::format("use less than {}; an eighth of the side is usual", side));
  if (augmentation.cutout > side)
    fail_augmentation("cutout", double(augmentation.cutout), images,
                      fmt::format("use at most {}; half of the side is usual", side));
}

SampleView fit_image(ImageSize image, ImageSize sample, Fit fit) {
  SampleView view{.box = {0, 0, image.height, image.width}, .full = sample, .cut = {}};
  if (fit == Fit::stretch) return view;
  const bool height_fits = image.height * sample.width <= image.width * sample.height;
  if (height_fits) view.full.width = sample.height * image.width / image.height;
  else view.full.height = sample.width * image.height / image.width;
  view.dy = static_cast<int64_t>(std::nearbyint(double(view.full.height - sample.height) / 2));
  view.dx = static_cast<int64_t>(std::nearbyint(double(view.full.width - sample.width) / 2));
  return view;
}

Philox augmentation_random(uint64_t seed, int64_t epoch) {
  return Philox(random_key(seed, "augment/epoch/" + std::to_string(epoch)));
}

SampleView draw_view(const Augmentation& augmentation, const Philox& random, int64_t index, ImageSize image,
                     ImageSize sample, Fit fit) {
  SampleView view = fit_image(image, sample, fit);
  if (augmentation.resized_crop)
    view = {.box = draw_part(*augmentation.resized_crop, random, index, image, sample), .full = sample, .cut = {}};
  const auto words = random(static_cast<uint64_t>(index), kShiftAndFlip);
  const int64_t choices = 2 * augmentation.padding + 1;
  view.dy += scaled(words[0], choices) - augmentation.padding;
  view.dx += scaled(words[1], choices) - augmentation.padding;
  view.flip = augmentation.flip && (words[2] >> 31) != 0;
  if (augmentation.cutout == 0) return view;
  const auto centre = random(static_cast<uint64_t>(index), kCutout);
  const int64_t top = scaled(centre[0], sample.height) - augmentation.cutout / 2;
  const int64_t left = scaled(centre[1], sample.width) - augmentation.cutout / 2;
  const int64_t y = std::max<int64_t>(0, top), x = std::max<int64_t>(0, left);
  view.cut = {y, x, std::min(sample.height, top + augmentation.cutout) - y,
              std::min(sample.width, left + augmentation.cutout) - x};
  return view;
}

Mix draw_mix(double alpha, const Philox& random, int64_t index, int64_t samples) {
  const double own = log_gamma_draw(alpha, random, index, kOwnShare),
               other = log_gamma_draw(alpha, random, index, kPartnerShare);
  const auto words = random(static_cast<uint64_t>(index), kPartner);
  const uint64_t word = uint64_t{words[0]} << 32 | words[1];
  const auto partner =
      static_cast<int64_t>((static_cast<unsigned __int128>(word) * static_cast<uint64_t>(samples)) >> 64);
  // The share of one of two Gamma draws is Beta distributed. Logarithms do not underflow.
  return {partner, 1 / (1 + std::exp(other - own))};
}

std::vector<float> normalization_table(const Normalization& normalization) {
  const size_t channels = normalization.mean.size();
  check_internal(normalization.deviation.size() == channels, "normalisation has one value per channel");
  std::vector<float> table(256 * channels);
  for (size_t v = 0; v < 256; ++v)
    for (size_t c = 0; c < channels; ++c)
      table[v * channels + c] =
          static_cast<float>((static_cast<double>(v) / 255.0 - normalization.mean[c]) / normalization.deviation[c]);
  return table;
}

void render_image(const ImageView& image, const SampleView& view, ImageSize sample, const std::vector<float>& table,
                  float* to, std::vector<uint8_t>& scratch) {
  ImageView source = image.part(view.box);
  int64_t dy = view.dy, dx = view.dx;
  if (view.part || view.full != view.box.size()) {
    Rectangle window{std::clamp<int64_t>(dy, 0, view.full.height), std::clamp<int64_t>(dx, 0, view.full.width), 0, 0};
    window.height = std::clamp<int64_t>(dy + sample.height, window.y, view.full.height) - window.y;
    window.width = std::clamp<int64_t>(dx + sample.width, window.x, view.full.width) - window.x;
    scratch.resize(static_cast<size_t>(window.size().area() * image.channels));
    if (!scratch.empty()) resize_bilinear(source, view.full, window, scratch.data(), view.part);
    source = {scratch.data(), window.size(), image.channels, window.width * image.channels};
    dy -= window.y;
    dx -= window.x;
  }
  if (image.channels == 3) convert_shifted<3>(source, dy, dx, view.flip, sample, table.data(), to);
  else convert_shifted<1>(source, dy, dx, view.flip, sample, table.data(), to);
  for (int64_t y = view.cut.y; y < view.cut.y + view.cut.height; ++y)
    std::fill_n(to + (y * sample.width + view.cut.x) * image.channels, view.cut.width * image.channels, 0.0f);
}

void render_mask(const ImageView& mask, const SampleView& view, ImageSize sample, std::span<const int64_t, 256> classes,
                 int64_t padding, int64_t* to) {
  const auto rows = nearest_sources(sample.height, view.dy, view.box.y, view.box.height, view.full.height);
  const auto columns = nearest_sources(sample.width, view.dx, view.box.x, view.box.width, view.full.width);
  for (int64_t y = 0; y < sample.height; ++y) {
    int64_t* row = to + y * sample.width;
    const int64_t source_y = rows[static_cast<size_t>(y)];
    for (int64_t x = 0; x < sample.width; ++x) {
      const int64_t source_x = columns[static_cast<size_t>(x)];
      const bool inside = source_y >= 0 && source_x >= 0;
      row[x] = inside ? classes[mask.row(source_y)[source_x]] : padding;
    }
    if (view.flip) std::reverse(row, row + sample.width);
  }
}

}  // namespace trireme
