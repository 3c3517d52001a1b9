// COCO's object instances as pixel classes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "data/images/coco/coco_instances.h"
#include "data/images/masked_images.h"

namespace trireme {

/// The instances, and the images of a folder. A pixel has the class of the smallest object that covers it (objects are
/// painted in descending order of area). It is ignored if only a crowd covers it; otherwise it is background.
class CocoMasks final : public MaskedImages {
 public:
  CocoMasks(CocoInstances instances, std::filesystem::path images);

  int64_t size() const override { return static_cast<int64_t>(instances_.images.size()); }
  std::filesystem::path image_file(int64_t index) const override { return images_ / image(index).file; }
  std::string mask_name(int64_t index) const override;
  Image mask(int64_t index) const override;
  ImageSize mask_size(int64_t index) const override;
  const MaskClasses& classes() const override { return classes_; }
  const CocoInstances& instances() const { return instances_; }

 private:
  /// Returns the image. User error: a broken annotation.
  const CocoImage& sound_image(int64_t index) const;
  const CocoImage& image(int64_t index) const { return instances_.images[static_cast<size_t>(index)]; }

  CocoInstances instances_;
  std::filesystem::path images_;
  MaskClasses classes_;
};

}  // namespace trireme
