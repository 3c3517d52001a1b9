#include "data/image_dataset.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/random.h"

namespace trireme {
namespace {

/// Where an augmented image takes its pixels from: output (y, x) reads input (y + dy, x + dx), x mirrored by `flip`.
struct View {
  int64_t dy = 0;
  int64_t dx = 0;
  bool flip = false;
};

int64_t scaled(uint32_t word, int64_t n) { return static_cast<int64_t>((uint64_t{word} * static_cast<uint64_t>(n)) >> 32); }

View draw_view(const CropAndFlip& augmentation, const Philox& random, int64_t index) {
  auto words = random(static_cast<uint64_t>(index));
  int64_t choices = 2 * augmentation.padding + 1;
  return {scaled(words[0], choices) - augmentation.padding, scaled(words[1], choices) - augmentation.padding,
          augmentation.flip && (words[2] >> 31) != 0};
}

/// One pixel of C channels; C is a constant so that the loops below unroll.
template <int C>
void convert(const uint8_t* from, float* to, int64_t pixels, const float* table) {
  for (int64_t i = 0; i < pixels; ++i)
    for (int c = 0; c < C; ++c) to[i * C + c] = table[from[i * C + c] * C + c];
}

template <int C>
void convert_view(const uint8_t* from, float* to, int64_t height, int64_t width, const View& view, const float* table) {
  const int64_t begin = std::clamp<int64_t>(-view.dx, 0, width);  // output columns begin..end have a source
  const int64_t end = std::clamp<int64_t>(width - view.dx, begin, width);
  auto black = [&](float* at, int64_t pixels) {
    for (int64_t i = 0; i < pixels; ++i)
      for (int c = 0; c < C; ++c) at[i * C + c] = table[c];
  };
  for (int64_t y = 0; y < height; ++y) {
    float* row = to + y * width * C;
    const int64_t source_y = y + view.dy;
    if (source_y < 0 || source_y >= height) {
      black(row, width);
      continue;
    }
    black(row, begin);
    convert<C>(from + (source_y * width + begin + view.dx) * C, row + begin * C, end - begin, table);
    black(row + end * C, width - end);
    if (!view.flip) continue;
    for (int64_t left = 0, right = width - 1; left < right; ++left, --right)
      for (int c = 0; c < C; ++c) std::swap(row[left * C + c], row[right * C + c]);
  }
}

}  // namespace

void Images::keep_first(int64_t n) {
  if (n <= 0 || n >= count()) return;
  labels.resize(static_cast<size_t>(n));
  pixels.resize(static_cast<size_t>(n * image_bytes()));
  pixels.shrink_to_fit();
}

ImageDataset::ImageDataset(Images images, int64_t classes, const Normalization& normalization, CropAndFlip augmentation)
    : images_(std::move(images)), classes_(classes), augmentation_(augmentation) {
  auto channels = static_cast<size_t>(images_.channels);
  check_internal(channels == 1 || channels == 3, "images have 1 or 3 channels");
  check_internal(static_cast<int64_t>(images_.pixels.size()) == images_.count() * images_.image_bytes(),
                 "an image set holds one image per label");
  check_internal(normalization.mean.size() == channels && normalization.deviation.size() == channels,
                 "normalisation has one value per channel");
  table_.resize(256 * channels);
  for (size_t v = 0; v < 256; ++v)
    for (size_t c = 0; c < channels; ++c)
      table_[v * channels + c] =
          static_cast<float>((static_cast<double>(v) / 255.0 - normalization.mean[c]) / normalization.deviation[c]);
}

Samples ImageDataset::get(std::span<const int64_t> indices, const Draw& draw) const {
  auto n = static_cast<int64_t>(indices.size());
  const int64_t channels = images_.channels, height = images_.height, width = images_.width;
  Samples samples;
  samples.data = at::empty({n, channels, height, width},
                           at::TensorOptions().dtype(at::kFloat).memory_format(at::MemoryFormat::ChannelsLast));
  samples.target = at::empty({n}, at::TensorOptions().dtype(at::kLong));
  auto* data = samples.data.data_ptr<float>();
  auto* target = samples.target.data_ptr<int64_t>();
  const bool augment = draw.augment && (augmentation_.padding > 0 || augmentation_.flip);
  const Philox random(random_key(draw.seed, "augment/epoch/" + std::to_string(draw.epoch)));
  const int64_t length = images_.image_bytes();
  for (int64_t i = 0; i < n; ++i) {
    int64_t index = indices[static_cast<size_t>(i)];
    check_internal(index >= 0 && index < size(), "sample indices lie inside the data set");
    const uint8_t* from = images_.pixels.data() + index * length;
    float* to = data + i * length;
    target[i] = images_.labels[static_cast<size_t>(index)];
    if (augment) {
      View view = draw_view(augmentation_, random, index);
      if (channels == 3) convert_view<3>(from, to, height, width, view, table_.data());
      else convert_view<1>(from, to, height, width, view, table_.data());
    } else {
      if (channels == 3) convert<3>(from, to, height * width, table_.data());
      else convert<1>(from, to, height * width, table_.data());
    }
  }
  return samples;
}

}  // namespace trireme
