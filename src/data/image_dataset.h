// Images held as bytes and turned into normalised float tensors a batch at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace trireme {

/// Bytes of n images with their labels. `pixels` is [n, height, width, channels]: the order in which `get` writes.
struct Images {
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;
  std::vector<uint8_t> pixels;
  std::vector<uint8_t> labels;

  int64_t count() const { return static_cast<int64_t>(labels.size()); }
  int64_t image_bytes() const { return channels * height * width; }
  void keep_first(int64_t n);  ///< drops all samples after the first n; 0: keeps all
};

/// One value per channel; a byte v becomes (v / 255 - mean) / deviation.
struct Normalization {
  std::vector<double> mean;
  std::vector<double> deviation;
};

/// Random pad-and-crop and horizontal flip. He et al., "Deep residual learning for image recognition", section 4.2.
struct CropAndFlip {
  int64_t padding = 0;  ///< black pixels added on each side before a crop of the original size; 0: no crop
  bool flip = false;
};

/// Immutable; `get` is safe from many threads. Batches are float32 NCHW in channels_last order, targets int64.
class ImageDataset final : public Dataset {
 public:
  /// `images` must be consistent (the readers see to it); labels are below `classes`.
  ImageDataset(Images images, int64_t classes, const Normalization& normalization, CropAndFlip augmentation = {});

  int64_t size() const override { return images_.count(); }
  Shape sample_shape() const override { return {images_.channels, images_.height, images_.width}; }
  int64_t classes() const override { return classes_; }

  /// Augments when `draw.augment` is set and the set has an augmentation; the draw of a sample depends on
  /// (seed, epoch, sample index) only. Errors: internal, when an index is out of range.
  Samples get(std::span<const int64_t> indices, const Draw& draw) const override;

  const Images& images() const { return images_; }

 private:
  Images images_;
  int64_t classes_;
  CropAndFlip augmentation_;
  std::vector<float> table_;  ///< [256, channels]: normalised value of a byte
};

}  // namespace trireme
