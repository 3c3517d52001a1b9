#include "data/images/segmentation_dataset.h"

#include <ATen/ATen.h>

#include <utility>

#include "data/images/image_loader.h"
#include "trireme/error.h"

namespace trireme {

SegmentationDataset::SegmentationDataset(std::shared_ptr<const MaskedImages> images, std::vector<int64_t> chosen,
                                         int64_t classes, SampleForm form)
    : images_(std::move(images)),
      chosen_(std::move(chosen)),
      classes_(classes),
      form_(std::move(form)),
      table_(normalization_table(form_.normalization)) {
  check_form(form_);
}

Samples SegmentationDataset::get(std::span<const int64_t> indices, const Draw& draw) const {
  const auto n = static_cast<int64_t>(indices.size());
  const int64_t area = form_.size.area(), length = form_.channels * area;
  Samples samples;
  samples.data = at::empty({n, form_.channels, form_.size.height, form_.size.width},
                           at::TensorOptions().dtype(at::kFloat).memory_format(at::MemoryFormat::ChannelsLast));
  samples.target = at::empty({n, form_.size.height, form_.size.width}, at::TensorOptions().dtype(at::kLong));
  const Philox random = augmentation_random(draw.seed, draw.epoch);
  Image decoded;
  std::vector<uint8_t> resized;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t index = indices[static_cast<size_t>(i)];
    check_internal(index >= 0 && index < size(), "sample indices lie inside the data set");
    const int64_t sample = chosen_[static_cast<size_t>(index)];
    const Image mask = images_->checked_mask(sample);
    SampleView view;
    const auto view_of = [&](ImageSize image) {
      images_->check_sizes(sample, image, mask.size);
      view = draw.augment ? draw_view(form_.augmentation, random, index, image, form_.size, Fit::stretch)
                          : fit_image(image, form_.size, Fit::stretch);
      return view;
    };
    const ViewedImage image = load_image(images_->image_file(sample), form_.channels, view_of, decoded);
    render_image(image.pixels, image.view, form_.size, table_, samples.data.data_ptr<float>() + i * length, resized);
    render_mask(mask.view(), view, form_.size, images_->classes(), kIgnoredPixel,
                samples.target.data_ptr<int64_t>() + i * area);
  }
  return samples;
}

}  // namespace trireme
