#include "data/images/image_dataset.h"

#include <ATen/ATen.h>

#include <utility>

#include "trireme/error.h"

namespace trireme {

void Images::keep_first(int64_t n) {
  if (n <= 0 || n >= count()) return;
  labels.resize(static_cast<size_t>(n));
  pixels.resize(static_cast<size_t>(n * image_bytes()));
  pixels.shrink_to_fit();
}

/// Buffers that the images of a batch use one after the other.
struct LabelledImages::Scratch {
  Image decoded;
  std::vector<uint8_t> resized;
};

void check_form(const SampleForm& form) {
  check_internal(form.channels == 1 || form.channels == 3, "images have 1 or 3 channels");
  check_internal(static_cast<int64_t>(form.normalization.mean.size()) == form.channels,
                 "normalisation has one value per channel");
}

LabelledImages::LabelledImages(SampleForm form, int64_t classes)
    : form_(std::move(form)), classes_(classes), table_(normalization_table(form_.normalization)) {
  check_form(form_);
}

void LabelledImages::render(int64_t index, const Draw& draw, const Philox& random, float* to, Scratch& scratch) const {
  const auto view_of = [&](ImageSize image) {
    return draw.augment ? draw_view(form_.augmentation, random, index, image, form_.size, Fit::crop)
                        : fit_image(image, form_.size, Fit::crop);
  };
  const ViewedImage image = read(index, view_of, scratch.decoded);
  render_image(image.pixels, image.view, form_.size, table_, to, scratch.resized);
}

Samples LabelledImages::get(std::span<const int64_t> indices, const Draw& draw) const {
  const auto n = static_cast<int64_t>(indices.size());
  const int64_t length = form_.channels * form_.size.area();
  const bool mixes = draw.augment && form_.augmentation.mixup > 0;
  Samples samples;
  samples.data = at::empty({n, form_.channels, form_.size.height, form_.size.width},
                           at::TensorOptions().dtype(at::kFloat).memory_format(at::MemoryFormat::ChannelsLast));
  samples.target = mixes ? at::zeros({n, classes_}, at::TensorOptions().dtype(at::kFloat))
                         : at::empty({n}, at::TensorOptions().dtype(at::kLong));
  auto* data = samples.data.data_ptr<float>();
  const Philox random = augmentation_random(draw.seed, draw.epoch);
  Scratch scratch;
  std::vector<float> other(mixes ? static_cast<size_t>(length) : 0);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t index = indices[static_cast<size_t>(i)];
    check_internal(index >= 0 && index < size(), "sample indices lie inside the data set");
    float* to = data + i * length;
    render(index, draw, random, to, scratch);
    if (!mixes) {
      samples.target.data_ptr<int64_t>()[i] = label(index);
      continue;
    }
    const Mix mix = draw_mix(form_.augmentation.mixup, random, index, size());
    const auto own = static_cast<float>(mix.own);
    render(mix.partner, draw, random, other.data(), scratch);
    for (int64_t p = 0; p < length; ++p) to[p] = own * to[p] + (1 - own) * other[static_cast<size_t>(p)];
    float* shares = samples.target.data_ptr<float>() + i * classes_;
    shares[label(index)] += own;
    shares[label(mix.partner)] += 1 - own;
  }
  return samples;
}

ImageDataset::ImageDataset(Images images, int64_t classes, const Normalization& normalization,
                           const Augmentation& augmentation, ImageSize sample)
    : LabelledImages({sample != ImageSize{} ? sample : ImageSize{images.height, images.width}, images.channels,
                      normalization, augmentation},
                     classes),
      images_(std::move(images)) {
  check_internal(static_cast<int64_t>(images_.pixels.size()) == images_.count() * images_.image_bytes(),
                 "an image set holds one image per label");
}

ViewedImage ImageDataset::read(int64_t index, const ViewOf& view_of, Image&) const {
  const ImageSize size{images_.height, images_.width};
  const uint8_t* pixels = images_.pixels.data() + index * images_.image_bytes();
  return {{pixels, size, images_.channels, images_.width * images_.channels}, view_of(size)};
}

}  // namespace trireme
