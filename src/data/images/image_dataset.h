// Images with one class each, converted to normalised float tensors batch by batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/images/augment.h"
#include "trireme/dataset.h"

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
  void keep_first(int64_t n);  ///< removes all samples after the first n; 0: removes none
};

/// How the images of a set become samples.
struct SampleForm {
  ImageSize size;
  int64_t channels = 3;
  Normalization normalization;  ///< one value per channel
  Augmentation augmentation = {};
};

/// Errors (internal): another number of channels than 1 or 3, or of normalisation values than of channels.
void check_form(const SampleForm& form);

/// A data set for image classification, independent of how the images are stored. Immutable; `get` is thread-safe.
/// Batches are float32 NCHW in channels_last order. Targets are int64 [n], or float32 [n, classes] if mixup is drawn.
class LabelledImages : public Dataset {
 public:
  Shape sample_shape() const final { return {form_.channels, form_.size.height, form_.size.width}; }
  int64_t classes() const final { return classes_; }

  /// Augments if `draw.augment` is set and the set has an augmentation. The draw of a sample depends on (seed, epoch,
  /// sample index) only. Errors: internal, if an index is out of range; those of reading an image.
  Samples get(std::span<const int64_t> indices, const Draw& draw) const final;

 protected:
  LabelledImages(SampleForm form, int64_t classes);

  virtual int64_t label(int64_t index) const = 0;
  /// Returns the pixels that the view needs, or a smaller version of the image with a matching view. They may be stored
  /// in `buffer`.
  virtual ViewedImage read(int64_t index, const ViewOf& view_of, Image& buffer) const = 0;

 private:
  struct Scratch;
  void render(int64_t index, const Draw& draw, const Philox& random, float* to, Scratch& scratch) const;

  SampleForm form_;
  int64_t classes_;
  std::vector<float> table_;  ///< [256, channels]: normalised value of a byte
};

/// Images of one size held in memory.
class ImageDataset final : public LabelledImages {
 public:
  /// `images` must be consistent (the readers ensure it); labels are below `classes`. `sample`: size of a sample; 0:
  /// that of the images.
  ImageDataset(Images images, int64_t classes, const Normalization& normalization,
               const Augmentation& augmentation = {}, ImageSize sample = {});

  int64_t size() const override { return images_.count(); }
  const Images& images() const { return images_; }

 private:
  int64_t label(int64_t index) const override { return images_.labels[static_cast<size_t>(index)]; }
  ViewedImage read(int64_t index, const ViewOf& view_of, Image& buffer) const override;

  Images images_;
};

}  // namespace trireme
