#include "data/open_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "data/bytes.h"
#include "data/cifar.h"
#include "data/coco.h"
#include "data/image_folder.h"
#include "data/image_loader.h"
#include "data/mask_folder.h"
#include "data/segmentation_dataset.h"
#include "data/source_words.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostSide = 1 << 14;  // of a sample, in pixels
constexpr ImageSize kTinySize{64, 64}, kFolderSize{224, 224}, kCocoSize{256, 256};
constexpr int64_t kCamvidClasses = 11, kCamvidUnlabelled = 11;
constexpr int64_t kTinyPaddingShare = 8;  // of the side, as 4 pixels of CIFAR's 32
constexpr Augmentation kPadFourAndFlip{.padding = 4, .flip = true};
constexpr Augmentation kCropAndFlip{.flip = true, .resized_crop = RandomResizedCrop{}};
// shapes of things tell classes of pixels apart: milder than for whole images
constexpr Augmentation kMaskCropAndFlip{.flip = true,
                                        .resized_crop = RandomResizedCrop{.least_area = 0.25, .least_aspect = 0.8, .most_aspect = 1.25}};

const Normalization& imagenet_normalization() {
  static const Normalization normalization{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
  return normalization;
}

/// User error: what the spec states is too large for samples of this size.
Augmentation augmentation_of(const DataSpec& spec, const Augmentation& standard, ImageSize sample) {
  if (!spec.augment) return {};
  if (spec.augmentation) check_augmentation_fits(*spec.augmentation, sample);
  return spec.augmentation.value_or(standard);
}

SampleForm form_of(const DataSpec& spec, ImageSize standard_size, const Augmentation& standard) {
  const ImageSize size = spec.image_size != ImageSize{} ? spec.image_size : standard_size;
  return {size, 3, imagenet_normalization(), augmentation_of(spec, standard, size)};
}

SampleForm without_augmentation(SampleForm form) {
  form.augmentation = {};
  return form;
}

TaskData open_cifar(const DataSpec& spec, const CifarFormat& format, const Normalization& normalization, const fs::path& folder) {
  const Augmentation augmentation = augmentation_of(spec, kPadFourAndFlip, {kCifarSide, kCifarSide});
  Images train = read_cifar_train(folder, format), test = read_cifar_test(folder, format);
  train.keep_first(spec.train_limit);
  test.keep_first(spec.test_limit);
  TaskData task;
  task.source = fmt::format("{}, {}{}", format.title, folder.string(),
                            used_part(train.count(), kCifarTrain, test.count(), kCifarTest));
  task.train = std::make_shared<ImageDataset>(std::move(train), format.classes, normalization, augmentation);
  task.test = std::make_shared<ImageDataset>(std::move(test), format.classes, normalization);
  return task;
}

/// Leaves broken files out where the spec says so; returns words about them. User error else: one that by its header cannot be read.
std::string check_files(const DataSpec& spec, const std::string& what, ImageFolder& folder) {
  const int64_t n = folder.count();
  if (spec.on_error == OnError::fail) {
    require_samples(n, [&](int64_t i) { size_of_image(folder.file(i)); });
    return "";
  }
  const Checked checked = check_samples(n, [&](int64_t i) { check_image(folder.file(i)); });
  std::vector<ImageFolder::File> good;
  for (int64_t i : checked.good) good.push_back(folder.files[static_cast<size_t>(i)]);
  folder.files = std::move(good);
  return left_out(what, n, checked, folder.folder);
}

TaskData open_classes(const DataSpec& spec, const std::string& title, const fs::path& root, const fs::path& test_folder,
                      const SampleForm& form) {
  ImageFolder train = list_image_folder(root / "train");
  if (train.classes.size() < 2)
    fail_user({.where = (root / "train").string(), .what = fmt::format("one class, \"{}\"", train.classes[0]),
               .why = "a classification tells at least two apart", .next = "add a folder of images for every other class"});
  ImageFolder test = list_image_folder(test_folder, train.classes);
  const int64_t whole_train = train.count(), whole_test = test.count();
  train.keep_evenly(spec.train_limit);
  test.keep_evenly(spec.test_limit);
  TaskData task;
  task.source = fmt::format("{}, {}, {} classes{}", title, root.string(), with_commas(static_cast<int64_t>(train.classes.size())),
                            used_part(train.count(), whole_train, test.count(), whole_test));
  task.source += check_files(spec, "training images", train) + check_files(spec, "test images", test);
  task.train = std::make_shared<FolderDataset>(std::move(train), form);
  task.test = std::make_shared<FolderDataset>(std::move(test), without_augmentation(form));
  return task;
}

/// The first n samples of a set (0: all), without broken ones where the spec says so; adds words about these. User error else: one
/// that by its headers cannot be read.
std::vector<int64_t> choose(const DataSpec& spec, const std::string& what, const fs::path& place, const MaskedImages& images, int64_t n,
                            std::string& words) {
  const int64_t count = n > 0 ? std::min(n, images.size()) : images.size();
  if (spec.on_error == OnError::skip) {
    Checked checked = check_samples(count, [&](int64_t i) { images.check(i); });
    words += left_out(what, count, checked, place);
    return std::move(checked.good);
  }
  require_samples(count, [&](int64_t i) { images.check_headers(i); });
  std::vector<int64_t> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), int64_t{0});
  return all;
}

struct MaskedSplits {
  std::shared_ptr<const MaskedImages> train;
  std::shared_ptr<const MaskedImages> test;
};

TaskData open_masks(const DataSpec& spec, const std::string& source, const fs::path& folder, const MaskedSplits& splits, int64_t classes,
                    const SampleForm& form) {
  std::string words;
  std::vector<int64_t> train = choose(spec, "training images", folder, *splits.train, spec.train_limit, words);
  std::vector<int64_t> test = choose(spec, "test images", folder, *splits.test, spec.test_limit, words);
  auto limited = [](int64_t limit, int64_t whole) { return limit > 0 ? std::min(limit, whole) : whole; };
  const int64_t whole_train = splits.train->size(), whole_test = splits.test->size();
  TaskData task;
  task.source = source + words +
                used_part(limited(spec.train_limit, whole_train), whole_train, limited(spec.test_limit, whole_test), whole_test);
  task.train = std::make_shared<SegmentationDataset>(splits.train, std::move(train), classes, form);
  task.test = std::make_shared<SegmentationDataset>(splits.test, std::move(test), classes, without_augmentation(form));
  return task;
}

/// Of the first image, where the spec says so of the first that is not broken.
ImageSize first_size(const DataSpec& spec, const MaskedImages& images) {
  for (int64_t i = 0;; ++i) {
    try {
      return size_of_image(images.image_file(i));
    } catch (const Error&) {
      if (spec.on_error == OnError::fail || i + 1 == images.size()) throw;
    }
  }
}

TaskData open_camvid(const DataSpec& spec, const KnownSet& set, const fs::path& folder) {
  const MaskClasses numbers = mask_classes(kCamvidClasses, {kCamvidUnlabelled});
  const MaskedSplits splits{std::make_shared<MaskFolder>(folder, "train", numbers), std::make_shared<MaskFolder>(folder, "test", numbers)};
  ImageSize size = spec.image_size;
  if (size == ImageSize{}) size = first_size(spec, *splits.train);
  return open_masks(spec, fmt::format("{}, {}", set.title, folder.string()), folder, splits, kCamvidClasses,
                    form_of(spec, size, kMaskCropAndFlip));
}

struct CocoSplit {
  fs::path annotations;
  fs::path images;
};

/// annotations/instances_<kind><year>.json of the latest year, with the folder <kind><year> or images/<kind><year>.
CocoSplit find_coco_split(const fs::path& folder, const std::string& kind) {
  const std::string begin = "instances_" + kind, end = ".json";
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder / "annotations", ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(begin) && name.ends_with(end)) names.push_back(name);
  }
  if (names.empty())
    fail_user({.where = (folder / "annotations").string(), .what = fmt::format("no {}*{}", begin, end),
               .why = "it holds the annotations", .next = "get them from cocodataset.org"});
  const std::string name = *std::max_element(names.begin(), names.end());
  const size_t prefix = begin.size() - kind.size();
  const std::string split = name.substr(prefix, name.size() - prefix - end.size());
  for (const fs::path& images : {folder / split, folder / "images" / split})
    if (fs::is_directory(images, ignored)) return {folder / "annotations" / name, images};
  fail_user({.where = (folder / split).string(), .what = "no such folder", .why = fmt::format("it holds the images of {}", name),
             .next = "get them from cocodataset.org"});
}

std::shared_ptr<const CocoMasks> read_coco(const DataSpec& spec, const CocoSplit& split) {
  const std::vector<uint8_t> text = read_file(split.annotations, "get it from cocodataset.org");
  const std::string_view characters(reinterpret_cast<const char*>(text.data()), text.size());
  CocoInstances instances = parse_coco(characters, split.annotations, spec.on_error == OnError::skip);
  if (instances.images.empty())
    fail_user({.where = split.annotations.string(), .what = "no images", .why = "a data set needs at least one",
               .next = "get the file again from cocodataset.org"});
  return std::make_shared<CocoMasks>(std::move(instances), split.images);
}

TaskData open_coco(const DataSpec& spec, const KnownSet& set, const fs::path& folder) {
  const auto train = read_coco(spec, find_coco_split(folder, "train")), test = read_coco(spec, find_coco_split(folder, "val"));
  if (train->instances().categories != test->instances().categories)
    fail_user({.where = test->instances().file.string(), .what = "other categories",
               .why = fmt::format("those of {} differ in id or name", train->instances().file.string()),
               .next = "take both files from one version of the set"});
  const int64_t classes = train->instances().classes();
  std::string source = fmt::format("{}, {}, {} categories and background", set.title, folder.string(), classes - 1);
  const int64_t stray = train->instances().stray + test->instances().stray;
  if (stray > 0) source += fmt::format(", {} annotations of no image left out", stray);
  return open_masks(spec, source, folder, {train, test}, classes, form_of(spec, kCocoSize, kMaskCropAndFlip));
}

}  // namespace

bool has_image_files(const std::string& name) {
  return name == "tiny-imagenet" || name == "folder" || name == "camvid" || name == "coco";
}

TaskData open_image_set(const DataSpec& spec, const KnownSet& set, const fs::path& folder) {
  if (spec.name == "cifar10") return open_cifar(spec, kCifar10, {{0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}}, folder);
  if (spec.name == "cifar100") return open_cifar(spec, kCifar100, {{0.5071, 0.4865, 0.4409}, {0.2673, 0.2564, 0.2762}}, folder);
  if (spec.name == "camvid") return open_camvid(spec, set, folder);
  if (spec.name == "coco") return open_coco(spec, set, folder);
  SampleForm form = form_of(spec, kTinySize, {});
  form.augmentation = augmentation_of(spec, {.padding = form.size.height / kTinyPaddingShare, .flip = true}, form.size);
  return open_classes(spec, set.title, folder, folder / "val", form);
}

TaskData open_folder(const DataSpec& spec) {
  const SampleForm form = form_of(spec, kFolderSize, kCropAndFlip);
  constexpr std::array kTestNames{"val", "valid", "validation", "test"};
  for (const char* name : kTestNames) {
    std::error_code ignored;
    if (fs::is_directory(*spec.path / name, ignored)) return open_classes(spec, "images by folder", *spec.path, *spec.path / name, form);
  }
  fail_user({.where = spec.path->string(), .what = "no folder val, valid, validation or test",
             .why = "a model is tested on images that it was not trained on", .next = "put some images of every class into val/<class>/"});
}

void check_image_spec(const DataSpec& spec) {
  const bool files = has_image_files(spec.name);
  if (spec.image_size != ImageSize{}) {
    const auto [height, width] = spec.image_size;
    const std::string value = fmt::format("{} x {}", height, width);
    if (!files)
      fail_user({.where = "data.image_size", .what = value, .why = spec.name + " is no set of image files", .next = "leave it out"});
    if (height < 1 || width < 1 || height > kMostSide || width > kMostSide)
      fail_user({.where = "data.image_size", .what = value, .why = fmt::format("sides are 1 to {} pixels", kMostSide),
                 .next = "write a side, as 64, or height and width, as [120, 160]"});
  }
  if (!spec.augmentation) return;
  if (!spec.augment)
    fail_user({.where = "data.augmentation", .what = "given", .why = "augment = false", .next = "set augment = true or leave it out"});
  check_augmentation(*spec.augmentation, spec.name == "camvid" || spec.name == "coco");
}

}  // namespace trireme
