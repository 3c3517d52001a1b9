// Images with a class for each pixel.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data/images/image_dataset.h"
#include "data/images/masked_images.h"

namespace trireme {

/// Samples are decoded when requested and stretched to one size: images bilinearly, masks by nearest pixel.
/// Augmentation moves image and mask together; padding is kIgnoredPixel. Targets are int64 [n, height, width].
/// Immutable; `get` is thread-safe.
class SegmentationDataset final : public Dataset {
 public:
  /// `chosen`: the samples of `images` that belong to this set, in order.
  SegmentationDataset(std::shared_ptr<const MaskedImages> images, std::vector<int64_t> chosen, int64_t classes,
                      SampleForm form);

  int64_t size() const override { return static_cast<int64_t>(chosen_.size()); }
  Shape sample_shape() const override { return {form_.channels, form_.size.height, form_.size.width}; }
  Shape target_shape() const override { return {form_.size.height, form_.size.width}; }
  LearningTask task() const override { return LearningTask::segmentation; }
  int64_t classes() const override { return classes_; }
  bool decodes() const override { return true; }

  /// Errors: internal, if an index is out of range; those of reading a sample, as in MaskedImages::check.
  Samples get(std::span<const int64_t> indices, const Draw& draw) const override;

 private:
  std::shared_ptr<const MaskedImages> images_;
  std::vector<int64_t> chosen_;
  int64_t classes_;
  SampleForm form_;
  std::vector<float> table_;  ///< [256, channels]: normalised value of a byte
};

}  // namespace trireme
