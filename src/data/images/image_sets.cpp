#include "data/images/image_sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "data/catalogue.h"
#include "data/images/cifar.h"
#include "data/images/image_folder.h"
#include "data/images/image_loader.h"
#include "data/images/segmentation_dataset.h"
#include "data/task_data.h"
#include "trireme/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostSide = 1 << 14;  // pixels of a sample's side
constexpr Augmentation kPadFourAndFlip{.padding = 4, .flip = true};
// milder than for whole images, because shapes help to distinguish the classes of pixels
constexpr Augmentation kMaskCropAndFlip{
    .flip = true, .resized_crop = RandomResizedCrop{.least_area = 0.25, .least_aspect = 0.8, .most_aspect = 1.25}};

const Normalization& imagenet_normalization() {
  static const Normalization normalization{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
  return normalization;
}

std::shared_ptr<const InputForm> inputs_of(const Normalization& normalization) {
  return std::make_shared<const InputForm>(InputForm{.mean = normalization.mean, .deviation = normalization.deviation});
}

SampleForm without_augmentation(SampleForm form) {
  form.augmentation = {};
  return form;
}

/// Leaves broken files out if the spec says so, and returns words about them. Otherwise throws a user error for a file
/// whose header shows that it cannot be read.
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

/// Returns the first n samples of a set (0: all). Leaves broken ones out if the spec says so, and adds words about
/// them. Otherwise throws a user error for a sample whose headers show that it cannot be read.
std::vector<int64_t> choose(const DataSpec& spec, const std::string& what, const fs::path& place,
                            const MaskedImages& images, int64_t n, std::string& words) {
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

/// Reads "[0.08, 1]" as two numbers. Returns false if the key is absent.
bool read_range(const ConfigTable& table, const char* key, double& least, double& most) {
  if (!table.has(key)) return false;
  const std::vector<double> range = table.get_doubles(key, {});
  if (range.size() != 2)
    table.fail(key, fmt::format("{} numbers", range.size()), "write the least and the most: [0.08, 1.0]");
  least = range[0];
  most = range[1];
  return true;
}

Augmentation read_augmentation(const ConfigTable& table) {
  Augmentation a;
  a.padding = table.get_int("padding", 0, 0);
  a.flip = table.get_bool("flip", false);
  RandomResizedCrop crop;
  const bool by_area = read_range(table, "crop_area", crop.least_area, crop.most_area);
  const bool by_aspect = read_range(table, "crop_aspect", crop.least_aspect, crop.most_aspect);
  if (by_area || by_aspect) a.resized_crop = crop;
  a.cutout = table.get_int("cutout", 0, 0);
  a.mixup = table.get_double("mixup", 0, 0);
  return a;
}

/// Reads "64" for a square, or "[120, 160]".
ImageSize read_image_size(const ConfigTable& table) {
  const std::vector<int64_t> sides = table.get_ints("image_size", {});
  if (sides.empty() || sides.size() > 2)
    table.fail("image_size", fmt::format("{} numbers", sides.size()),
               "write a side, as 64, or height and width, as [120, 160]");
  if (*std::min_element(sides.begin(), sides.end()) < 1)
    table.fail("image_size", "a side has at least 1 pixel", "correct it, or leave it out");
  return {sides.front(), sides.back()};
}

}  // namespace

const std::vector<std::string>& image_keys() {
  static const std::vector<std::string> keys{"image_size"};
  return keys;
}

const std::vector<std::string>& augmented_image_keys() {
  static const std::vector<std::string> keys{"augment", "augmentation", "image_size"};
  return keys;
}

const std::vector<std::string>& image_file_keys() {
  static const std::vector<std::string> keys{"augment", "augmentation", "image_size", "on_error"};
  return keys;
}

void read_image_keys(const ConfigTable& table, const fs::path&, DataSpec& spec) {
  spec.augment = table.get_bool("augment", false);
  if (table.has("augmentation")) spec.augmentation = read_augmentation(table.table("augmentation"));
  if (table.has("image_size")) spec.image_size = read_image_size(table);
}

void check_image_spec(const DataSpec& spec) {
  const KnownSet& set = known_set(spec.name);
  if (spec.image_size != ImageSize{}) {
    const auto [height, width] = spec.image_size;
    const std::string value = fmt::format("{} x {}", height, width);
    if (!set.takes("image_size"))
      fail_user({.where = "data.image_size",
                 .what = value,
                 .why = spec.name + " is not a set of images",
                 .next = "leave it out"});
    if (height < 1 || width < 1 || height > kMostSide || width > kMostSide)
      fail_user({.where = "data.image_size",
                 .what = value,
                 .why = fmt::format("sides are 1 to {} pixels", kMostSide),
                 .next = "write a side, as 64, or height and width, as [120, 160]"});
  }
  if (!spec.augmentation) return;
  if (!spec.augment)
    fail_user({.where = "data.augmentation",
               .what = "given",
               .why = "augment = false",
               .next = "set augment = true or leave it out"});
  check_augmentation(*spec.augmentation, set.task == LearningTask::segmentation);
}

Augmentation augmentation_of(const DataSpec& spec, const Augmentation& standard, ImageSize sample) {
  if (!spec.augment) return {};
  const Augmentation augmentation = spec.augmentation.value_or(standard);
  check_augmentation_fits(augmentation, sample);
  return augmentation;
}

ImageSize sample_size(const DataSpec& spec, ImageSize standard) {
  return spec.image_size != ImageSize{} ? spec.image_size : standard;
}

SampleForm form_of(const DataSpec& spec, ImageSize standard_size, const Augmentation& standard) {
  const ImageSize size = sample_size(spec, standard_size);
  return {size, 3, imagenet_normalization(), augmentation_of(spec, standard, size)};
}

TaskData image_task(const DataSpec& spec, ImageSplits splits, int64_t classes, const Normalization& normalization,
                    const std::string& title, const Augmentation& augmentation) {
  auto& [train, test, whole_train, whole_test] = splits;
  train.keep_first(spec.train_limit);
  test.keep_first(spec.test_limit);
  TaskData task;
  task.source = title + used_part(train.count(), whole_train, test.count(), whole_test);
  task.train = std::make_shared<ImageDataset>(std::move(train), classes, normalization, augmentation, spec.image_size);
  task.test = std::make_shared<ImageDataset>(std::move(test), classes, normalization, Augmentation{}, spec.image_size);
  task.inputs = inputs_of(normalization);
  return task;
}

SetShape cifar_shape(const DataSpec& spec, int64_t classes) {
  const ImageSize size = sample_size(spec, {kCifarSide, kCifarSide});
  return {.task = LearningTask::classification,
          .sample = {3, size.height, size.width},
          .classes = classes,
          .train = kCifarTrain,
          .test = kCifarTest};
}

SetShape image_files_shape(const DataSpec& spec, ImageSize standard_size, int64_t classes, int64_t train,
                           int64_t test) {
  const ImageSize size = sample_size(spec, standard_size);
  return {.task = LearningTask::classification,
          .sample = {3, size.height, size.width},
          .classes = classes,
          .train = train,
          .test = test,
          .decodes = true};
}

SetShape masks_shape(const DataSpec& spec, ImageSize standard_size, int64_t classes, int64_t train, int64_t test) {
  SetShape shape = image_files_shape(spec, standard_size, classes, train, test);
  shape.task = LearningTask::segmentation;
  shape.target = {shape.sample[1], shape.sample[2]};
  return shape;
}

TaskData open_cifar(const DataSpec& spec, const CifarFormat& format, const Normalization& normalization,
                    const fs::path& folder) {
  return image_task(spec, {read_cifar_train(folder, format), read_cifar_test(folder, format), kCifarTrain, kCifarTest},
                    format.classes, normalization, fmt::format("{}, {}", format.title, folder.string()),
                    augmentation_of(spec, kPadFourAndFlip, sample_size(spec, {kCifarSide, kCifarSide})));
}

TaskData open_classes(const DataSpec& spec, const std::string& title, const fs::path& root, const fs::path& test_folder,
                      const SampleForm& form) {
  ImageFolder train = list_image_folder(root / "train");
  if (train.classes.size() < 2)
    fail_user({.where = (root / "train").string(),
               .what = fmt::format("one class, \"{}\"", train.classes[0]),
               .why = "classification needs at least two classes",
               .next = "add a folder of images for every other class"});
  ImageFolder test = list_image_folder(test_folder, train.classes);
  const int64_t whole_train = train.count(), whole_test = test.count();
  train.keep_evenly(spec.train_limit);
  test.keep_evenly(spec.test_limit);
  TaskData task;
  task.source =
      fmt::format("{}, {}, {} classes{}", title, root.string(), with_commas(static_cast<int64_t>(train.classes.size())),
                  used_part(train.count(), whole_train, test.count(), whole_test));
  for (const ImageFolder* split : {&train, &test})
    if (const std::string words = split->left_out_in_words(); !words.empty())
      task.source += fmt::format("{} of {}", words, split->folder.filename().string());
  task.source += check_files(spec, "training images", train) + check_files(spec, "test images", test);
  task.train = std::make_shared<FolderDataset>(std::move(train), form);
  task.test = std::make_shared<FolderDataset>(std::move(test), without_augmentation(form));
  task.inputs = inputs_of(form.normalization);
  return task;
}

TaskData open_masks(const DataSpec& spec, const std::string& source, const fs::path& folder, const MaskedSplits& splits,
                    int64_t classes, ImageSize standard_size) {
  const SampleForm form = form_of(spec, standard_size, kMaskCropAndFlip);
  std::string words;
  std::vector<int64_t> train = choose(spec, "training images", folder, *splits.train, spec.train_limit, words);
  std::vector<int64_t> test = choose(spec, "test images", folder, *splits.test, spec.test_limit, words);
  const int64_t whole_train = splits.train->size(), whole_test = splits.test->size();
  TaskData task;
  task.source =
      source + words +
      used_part(limited(spec.train_limit, whole_train), whole_train, limited(spec.test_limit, whole_test), whole_test);
  task.train = std::make_shared<SegmentationDataset>(splits.train, std::move(train), classes, form);
  task.test = std::make_shared<SegmentationDataset>(splits.test, std::move(test), classes, without_augmentation(form));
  task.inputs = inputs_of(form.normalization);
  return task;
}

}  // namespace trireme
