#include "data/images/mask_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <system_error>

#include "data/bytes.h"
#include "data/images/image_file.h"
#include "data/images/image_loader.h"
#include "trireme/error.h"

namespace trireme {
namespace {

const char* const kMaskLayout =
    "a set has images (.jpg, .jpeg, .png) in train/ and test/, and masks (.png) of the same names in trainannot/ and "
    "testannot/";
constexpr const char* kMaskMissing =
    "every image needs a mask; data.on_error = \"skip\" leaves out those that have none";

/// Fails if there is no mask, and says which ending is read, and of one with another ending that it is not.
void require_mask(const std::filesystem::path& file) {
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored)) return;
  std::string why = "masks are read from files that end in .png";
  for (const char* ending : {".PNG", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp"}) {
    std::filesystem::path other = file;
    other.replace_extension(ending);
    if (!std::filesystem::exists(other, ignored)) continue;
    why += fmt::format(", {} is not", other.filename().string());
    break;
  }
  fail_user({.where = file.string(), .what = "no such file", .why = why, .next = kMaskMissing});
}

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
  require_mask(file);
  return decode_mask(read_file(file, kMaskMissing), file);
}

ImageSize MaskFolder::mask_size(int64_t index) const {
  require_mask(mask_name(index));
  return size_of_mask(mask_name(index));
}

}  // namespace trireme
