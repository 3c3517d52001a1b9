#include "data/images/masked_images.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "data/images/image_loader.h"
#include "trireme/error.h"

namespace trireme {
namespace {

const char* const kSampleNext = "repair the set, or leave broken samples out with data.on_error = \"skip\"";

/// Returns the valid numbers in words: "classes are 0 to 10, and 11 means no class".
std::string meaning(const MaskClasses& classes) {
  int64_t most = 0;
  std::vector<int64_t> ignored;
  for (int64_t number = 0; number < 256; ++number) {
    const int64_t value = classes[static_cast<size_t>(number)];
    if (value >= 0) most = number;
    if (value == kIgnoredPixel) ignored.push_back(number);
  }
  return fmt::format("classes are 0 to {}", most) +
         (ignored.empty() ? "" : fmt::format(", and {} means no class", fmt::join(ignored, ", ")));
}

}  // namespace

MaskClasses mask_classes(int64_t classes, const std::vector<int64_t>& ignored) {
  MaskClasses table;
  table.fill(kNoClass);
  for (int64_t c = 0; c < classes; ++c) table.at(static_cast<size_t>(c)) = c;
  for (int64_t number : ignored) table.at(static_cast<size_t>(number)) = kIgnoredPixel;
  return table;
}

Image MaskedImages::checked_mask(int64_t index) const {
  Image image = mask(index);
  const MaskClasses& meanings = classes();
  const auto bad =
      std::find_if(image.pixels.begin(), image.pixels.end(), [&](uint8_t v) { return meanings[v] == kNoClass; });
  if (bad == image.pixels.end()) return image;
  const int64_t at = bad - image.pixels.begin();
  fail_user({.where = mask_name(index),
             .what = fmt::format("number {} in row {}, column {}", *bad, at / image.size.width, at % image.size.width),
             .why = meaning(meanings),
             .next = kSampleNext});
}

void MaskedImages::check_sizes(int64_t index, ImageSize image, ImageSize mask) const {
  if (image == mask) return;
  fail_user({.where = mask_name(index),
             .what = fmt::format("a mask of {}x{} pixels", mask.width, mask.height),
             .why = fmt::format("its image {} has {}x{}", image_file(index).string(), image.width, image.height),
             .next = kSampleNext});
}

void MaskedImages::check(int64_t index) const {
  const Image mask = checked_mask(index);
  check_sizes(index, check_image(image_file(index)), mask.size);
}

void MaskedImages::check_headers(int64_t index) const {
  check_sizes(index, size_of_image(image_file(index)), mask_size(index));
}

}  // namespace trireme
