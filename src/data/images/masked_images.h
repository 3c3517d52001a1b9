// Images with masks: a number for every pixel that says which class it belongs to.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/images/image.h"

namespace trireme {

inline constexpr int64_t kIgnoredPixel = -1;  ///< target of pixels that count neither in the loss nor in a metric

/// The class of every number that a mask may store: 0 .. classes - 1, kIgnoredPixel, or kNoClass.
using MaskClasses = std::array<int64_t, 256>;
inline constexpr int64_t kNoClass = -2;  ///< the number must not occur

/// 0 .. classes - 1 stand for themselves, `ignored` numbers for no class.
MaskClasses mask_classes(int64_t classes, const std::vector<int64_t>& ignored);

/// Where the images and masks of a set come from. Immutable; safe from many threads.
class MaskedImages {
 public:
  virtual ~MaskedImages() = default;
  virtual int64_t size() const = 0;
  virtual std::filesystem::path image_file(int64_t index) const = 0;
  /// What messages about the sample's mask call it.
  virtual std::string mask_name(int64_t index) const = 0;
  /// [height, width, 1] of numbers. User errors: it cannot be read.
  virtual Image mask(int64_t index) const = 0;
  /// Its height and width, as far as possible without reading it. User errors: it can be told that `mask` would fail.
  virtual ImageSize mask_size(int64_t index) const = 0;
  /// What the numbers mean.
  virtual const MaskClasses& classes() const = 0;

  /// The mask, all of whose numbers have a meaning. User error naming mask, number, row and column where one has none.
  Image checked_mask(int64_t index) const;
  /// User error naming both files where image and mask differ in size.
  void check_sizes(int64_t index, ImageSize image, ImageSize mask) const;
  /// Reads image and mask of a sample and throws what `get` would throw.
  void check(int64_t index) const;
  /// Reads their headers only: both are there, and of one size.
  void check_headers(int64_t index) const;
};

}  // namespace trireme
