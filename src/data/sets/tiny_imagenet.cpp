#include "data/catalogue.h"
#include "data/images/image_sets.h"

namespace trireme::sets {
namespace {

constexpr ImageSize kTinyImagenetSize{64, 64};
constexpr int64_t kPaddingShare = 8;  // padding is side / 8, as CIFAR's 4 of 32 pixels

TaskData open_tiny_imagenet(const DataSpec& spec, const KnownSet& set, const std::filesystem::path& folder) {
  SampleForm form = form_of(spec, kTinyImagenetSize, {});
  form.augmentation = augmentation_of(spec, {.padding = form.size.height / kPaddingShare, .flip = true}, form.size);
  return open_classes(spec, set.title, folder, folder / "val", form);
}

}  // namespace

KnownSet tiny_imagenet() {
  return {.name = "tiny-imagenet",
          .title = "tiny ImageNet",
          .description = "photographs of 100 or 200 kinds of things, 64x64 JPEG",
          .task = LearningTask::classification,
          .folders = {"tiny-imagenet-100", "tiny-imagenet-200", "tiny-imagenet"},
          .parts = {{{"words.txt", "wnids.txt"}, 0}},
          .advice = "unpack http://cs231n.stanford.edu/tiny-imagenet-200.zip: train/<class>/, val/ and words.txt",
          .keys = image_file_keys(),
          .read = read_image_keys,
          .open = open_tiny_imagenet,
          .shape = [](const DataSpec& spec) {
            return image_files_shape(spec, kTinyImagenetSize, 200, 100'000, 10'000);  // as published
          }};
}

}  // namespace trireme::sets
