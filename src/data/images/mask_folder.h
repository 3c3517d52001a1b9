// Images with masks in PNG files that hold class numbers, as in SegNet's CamVid.
#pragma once

#include <string>
#include <vector>

#include "data/images/masked_images.h"

namespace trireme {

/// folder/<split>/<name>.{jpg,jpeg,png} with folder/<split>annot/<name>.png, in the byte order of the names. The
/// numbers in the masks are palette indices or grey values.
class MaskFolder final : public MaskedImages {
 public:
  /// User errors: a missing folder; no images. A missing mask is an error of mask() and mask_size().
  MaskFolder(const std::filesystem::path& folder, const std::string& split, const MaskClasses& classes);

  int64_t size() const override { return static_cast<int64_t>(pairs_.size()); }
  std::filesystem::path image_file(int64_t index) const override { return images_ / pair(index).image; }
  std::string mask_name(int64_t index) const override { return (masks_ / pair(index).mask).string(); }
  Image mask(int64_t index) const override;
  ImageSize mask_size(int64_t index) const override;
  const MaskClasses& classes() const override { return classes_; }

 private:
  struct Pair {
    std::string image;
    std::string mask;
  };
  const Pair& pair(int64_t index) const { return pairs_[static_cast<size_t>(index)]; }

  std::filesystem::path images_;
  std::filesystem::path masks_;
  std::vector<Pair> pairs_;
  MaskClasses classes_;
};

}  // namespace trireme
