// Images with masks. A mask holds a number for each pixel, which gives the pixel's class.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/images/image.h"

namespace trireme {

inline constexpr int64_t kIgnoredPixel = -1;  ///< target of pixels that count neither in the loss nor in a metric

/// The class for each number that a mask may store: 0 .. classes - 1, kIgnoredPixel, or kNoClass.
using MaskClasses = std::array<int64_t, 256>;
inline constexpr int64_t kNoClass = -2;  ///< the number must not occur

/// Maps 0 .. classes - 1 to themselves, `ignored` numbers to kIgnoredPixel, and all others to kNoClass.
MaskClasses mask_classes(int64_t classes, const std::vector<int64_t>& ignored);

/// Source of a set's images and masks. Immutable; thread-safe.
class MaskedImages {
 public:
  virtual ~MaskedImages() = default;
  virtual int64_t size() const = 0;
  virtual std::filesystem::path image_file(int64_t index) const = 0;
  /// Returns the name of the sample's mask in messages.
  virtual std::string mask_name(int64_t index) const = 0;
  /// Returns the mask's numbers, [height, width, 1]. User errors: it cannot be read.
  virtual Image mask(int64_t index) const = 0;
  /// Returns the mask's height and width, if possible without reading the whole mask. User errors: it is clear that
  /// `mask` would fail.
  virtual ImageSize mask_size(int64_t index) const = 0;
  /// Returns the class of each number.
  virtual const MaskClasses& classes() const = 0;

  /// Returns the mask. User error naming mask, number, row and column if a number has no class.
  Image checked_mask(int64_t index) const;
  /// User error naming both files if image and mask differ in size.
  void check_sizes(int64_t index, ImageSize image, ImageSize mask) const;
  /// Reads image and mask of a sample, and throws what `get` would throw.
  void check(int64_t index) const;
  /// Reads the headers only, and checks that both files exist and have the same size.
  void check_headers(int64_t index) const;
};

}  // namespace trireme
