#include "data/images/mask_folder.h"

#include <algorithm>

#include "data/bytes.h"
#include "data/images/image_file.h"
#include "data/images/image_loader.h"
#include "trireme/error.h"

namespace trireme {
namespace {

const char* const kMaskLayout =
    "a set has images in train/ and test/, and masks of the same names in trainannot/ and testannot/";

}  // namespace

MaskFolder::MaskFolder(const std::filesystem::path& folder, const std::string& split, const MaskClasses& classes)
    : images_(folder / split), masks_(folder / (split + "annot")), classes_(classes) {
  for (const auto& needed : {images_, masks_}) {
    std::error_code ignored;
    if (!std::filesystem::is_directory(needed, ignored))
      fail_user({.where = needed.string(), .what = "no such folder", .why = "", .next = kMaskLayout});
  }
  for (const auto& entry : std::filesystem::directory_iterator(images_))
    if (entry.is_regular_file() && is_image_name(entry.path()))
      pairs_.push_back({entry.path().filename().string(), entry.path().stem().string() + ".png"});
  std::sort(pairs_.begin(), pairs_.end(), [](const Pair& a, const Pair& b) { return a.image < b.image; });
  if (pairs_.empty()) fail_user({.where = images_.string(), .what = "no images", .why = "", .next = kMaskLayout});
}

Image MaskFolder::mask(int64_t index) const {
  const std::filesystem::path file = mask_name(index);
  return decode_mask(
      read_file(file, "every image needs a mask; data.on_error = \"skip\" leaves out those that have none"), file);
}

ImageSize MaskFolder::mask_size(int64_t index) const { return size_of_mask(mask_name(index)); }

}  // namespace trireme
