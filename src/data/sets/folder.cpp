#include <array>

#include "data/catalogue.h"
#include "data/images/image_sets.h"
#include "trireme/error.h"

namespace trireme::sets {
namespace {

constexpr ImageSize kFolderSize{224, 224};
constexpr Augmentation kCropAndFlip{.flip = true, .resized_crop = RandomResizedCrop{}};

/// Opens train/<class>/ and val/<class>/ (or valid/, validation/, test/).
TaskData open_folder(const DataSpec& spec, const KnownSet& set, const std::filesystem::path& folder) {
  const SampleForm form = form_of(spec, kFolderSize, kCropAndFlip);
  constexpr std::array kTestNames{"val", "valid", "validation", "test"};
  for (const char* name : kTestNames) {
    std::error_code ignored;
    if (std::filesystem::is_directory(folder / name, ignored))
      return open_classes(spec, set.title, folder, folder / name, form);
  }
  fail_user({.where = folder.string(),
             .what = "no folder val, valid, validation or test",
             .why = "a model is tested on images that it was not trained on",
             .next = "put some images of every class into val/<class>/"});
}

}  // namespace

KnownSet folder() {
  return {.name = "folder",
          .title = "images by folder",
          .description = "any images, in a folder for each class",
          .task = LearningTask::classification,
          .origin = DataOrigin::own_folder,
          .advice = "name the folder that holds train/ and val/",
          .keys = image_file_keys(),
          .read = read_image_keys,
          .open = open_folder,
          .shape = [](const DataSpec& spec) { return image_files_shape(spec, kFolderSize, 0, 0, 0); }};
}

}  // namespace trireme::sets
