#include "data/open.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "data/catalogue.h"
#include "data/cifar10.h"
#include "data/generated_digits.h"
#include "data/generated_text.h"
#include "data/idx.h"
#include "data/image_dataset.h"
#include "data/text_stream.h"
#include "data/words.h"

namespace trireme {
namespace {

constexpr int64_t kDigitClasses = 10;
constexpr int64_t kCropPadding = 4;

std::optional<std::filesystem::path> environment_path(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::filesystem::path(value);
}

/// 20000 -> "20,000"
std::string with_commas(int64_t n) {
  std::string digits = std::to_string(n);
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3) digits.insert(static_cast<size_t>(at), 1, ',');
  return digits;
}

/// "", or what part of the whole set is used.
std::string used_part(int64_t train, int64_t whole_train, int64_t test, int64_t whole_test, const char* unit = "images") {
  if (train == whole_train && test == whole_test) return "";
  auto count = [](int64_t n, int64_t whole) {
    return n == whole ? with_commas(n) : with_commas(n) + " of " + with_commas(whole);
  };
  return fmt::format(", {} training {}, {} test {}", count(train, whole_train), unit, count(test, whole_test), unit);
}

TaskData make_task(Images train, Images test, int64_t classes, const Normalization& normalization,
                   const CropAndFlip& augmentation) {
  TaskData task;
  task.train = std::make_shared<ImageDataset>(std::move(train), classes, normalization, augmentation);
  task.test = std::make_shared<ImageDataset>(std::move(test), classes, normalization);
  return task;
}

Images read_mnist_split(const KnownSet& set, const std::filesystem::path& folder, size_t first_part) {
  std::filesystem::path files[2];
  for (size_t i = 0; i < 2; ++i) {
    const auto& part = set.parts[first_part + i];
    files[i] = find_part(folder, part).value_or(folder / part.names.front());  // the reader names a missing file
  }
  return read_idx_images(files[0], files[1], kDigitClasses);
}

TaskData open_mnist(const DataSpec& spec, const KnownSet& set, const std::filesystem::path& folder) {
  Images train = read_mnist_split(set, folder, 0), test = read_mnist_split(set, folder, 2);
  if (train.height != test.height || train.width != test.width)
    fail_user({.where = folder.string(),
               .what = fmt::format("training images of {}x{}, test images of {}x{}", train.height, train.width, test.height,
                                   test.width),
               .why = "both must have one size",
               .next = "delete the files and get the set again: trireme data get mnist"});
  const int64_t whole_train = train.count(), whole_test = test.count();
  train.keep_first(spec.train_limit);
  test.keep_first(spec.test_limit);
  std::string source = fmt::format("{}, {}{}", set.title, folder.string(),
                                   used_part(train.count(), whole_train, test.count(), whole_test));
  TaskData task = make_task(std::move(train), std::move(test), kDigitClasses, {{0.1307}, {0.3081}}, {});
  task.source = std::move(source);
  return task;
}

TaskData open_cifar10(const DataSpec& spec, const KnownSet& set, const std::filesystem::path& folder) {
  Images train = read_cifar10_train(folder), test = read_cifar10_test(folder);
  train.keep_first(spec.train_limit);
  test.keep_first(spec.test_limit);
  std::string source = fmt::format("{}, {}{}", set.title, folder.string(),
                                   used_part(train.count(), kCifarTrain, test.count(), kCifarTest));
  const Normalization normalization{{0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}};
  const CropAndFlip augmentation = spec.augment ? CropAndFlip{kCropPadding, true} : CropAndFlip{};
  TaskData task = make_task(std::move(train), std::move(test), kCifarClasses, normalization, augmentation);
  task.source = std::move(source);
  return task;
}

TaskData open_digits(const DataSpec& spec, const std::string& reason) {
  auto count = [](int64_t limit, int64_t whole) { return limit > 0 ? std::min(limit, whole) : whole; };
  Images train = generate_digits(DigitSplit::train, count(spec.train_limit, kDigitTrain), spec.seed);
  Images test = generate_digits(DigitSplit::test, count(spec.test_limit, kDigitTest), spec.seed);
  std::string source = "generated digits" + reason + used_part(train.count(), kDigitTrain, test.count(), kDigitTest);
  TaskData task = make_task(std::move(train), std::move(test), kDigitClasses, digit_normalization(), {});
  task.source = std::move(source);
  task.generated = true;
  return task;
}

/// `title` tells where the text is from.
TaskData make_text_task(const DataSpec& spec, std::vector<int32_t> train_tokens, std::vector<int32_t> test_tokens,
                        int64_t vocabulary, const std::string& title) {
  const int64_t window = spec.sequence > 0 ? spec.sequence : kDefaultSequence;
  auto train = std::make_shared<TextStream>(std::move(train_tokens), vocabulary, window);
  auto test = std::make_shared<TextStream>(std::move(test_tokens), vocabulary, window);
  const int64_t whole_train = train->size(), whole_test = test->size();
  train->keep_first(spec.train_limit);
  test->keep_first(spec.test_limit);
  TaskData task;
  task.source = fmt::format("{}, {} different tokens, sequences of {}{}", title, with_commas(vocabulary), window,
                            used_part(train->size(), whole_train, test->size(), whole_test, "sequences"));
  task.train = std::move(train);
  task.test = std::move(test);
  return task;
}

TaskData open_ptb(const DataSpec& spec, const KnownSet& set, const std::filesystem::path& folder) {
  const std::string next = "delete the file and get the set again: trireme data get ptb";
  Vocabulary vocabulary;
  std::vector<int32_t> train = read_training_text(folder / "ptb.train.txt", vocabulary, next);
  std::vector<int32_t> test = read_text(folder / "ptb.test.txt", vocabulary, next);
  return make_text_task(spec, std::move(train), std::move(test), vocabulary.size(), fmt::format("{}, {}", set.title, folder.string()));
}

TaskData open_generated_text(const DataSpec& spec) {
  TaskData task = make_text_task(spec, generate_text(TextSplit::train, kTextTrain, spec.seed),
                                 generate_text(TextSplit::test, kTextTest, spec.seed), kTextVocabulary, "generated text");
  task.generated = true;
  return task;
}

TaskData open_found(const DataSpec& spec, const KnownSet& set, const std::filesystem::path& folder) {
  if (spec.name == "mnist") return open_mnist(spec, set, folder);
  return spec.name == "ptb" ? open_ptb(spec, set, folder) : open_cifar10(spec, set, folder);
}

void check_spec(const DataSpec& spec) {
  const auto& names = data_names();
  if (std::find(names.begin(), names.end(), spec.name) == names.end())
    fail_user({.where = "data.name", .what = "\"" + spec.name + "\"", .why = "no data set has this name",
               .next = fmt::format("choose one of {}", fmt::join(names, ", "))});
  if (spec.sequence < 0 || (spec.sequence > 0 && !is_text(spec.name)))
    fail_user({.where = "data.sequence", .what = std::to_string(spec.sequence),
               .why = is_text(spec.name) ? "a sample holds at least one token" : spec.name + " is no text",
               .next = is_text(spec.name) ? "set a positive number" : "leave it out"});
  if (spec.augment && spec.name != "cifar10")
    fail_user({.where = "data.augment", .what = "true", .why = spec.name + " has no standard augmentation",
               .next = "set augment = false"});
  for (auto [key, value] : {std::pair{"data.train_limit", spec.train_limit}, {"data.test_limit", spec.test_limit}})
    if (value < 0)
      fail_user({.where = key, .what = std::to_string(value), .why = "a number of samples is not negative",
                 .next = "0 takes all"});
  std::error_code ignored;
  if (spec.data_dir && !std::filesystem::is_directory(*spec.data_dir, ignored))
    fail_user({.where = "--data-dir", .what = spec.data_dir->string(), .why = "no such folder",
               .next = "name the folder that holds the data sets, or leave the option out"});
}

}  // namespace

const std::vector<std::string>& data_names() {
  static const std::vector<std::string> names{"mnist", "cifar10", "digits", "ptb", "generated-text"};
  return names;
}

bool is_text(const std::string& name) { return name == "ptb" || name == "generated-text"; }

std::filesystem::path cache_folder() {
  if (auto own = environment_path("TRIREME_CACHE")) return *own;
  if (auto shared = environment_path("XDG_CACHE_HOME")) return *shared / "trireme";
  return environment_path("HOME").value_or(".") / ".cache" / "trireme";
}

std::vector<std::filesystem::path> data_search_path(const std::optional<std::filesystem::path>& data_dir) {
  std::vector<std::filesystem::path> folders;
  if (data_dir) folders.push_back(*data_dir);
  if (auto named = environment_path("TRIREME_DATA")) folders.push_back(*named);
  folders.push_back(cache_folder());
  folders.push_back(std::filesystem::path("..") / "shared" / "data");
  return folders;
}

TaskData open_data(const DataSpec& spec) {
  check_spec(spec);
  if (spec.name == "digits") return open_digits(spec, "");
  if (spec.name == "generated-text") return open_generated_text(spec);
  const KnownSet& set = known_set(spec.name);
  const auto searched = data_search_path(spec.data_dir);
  if (auto folder = find_set(set, searched)) return open_found(spec, set, *folder);
  if (spec.name == "mnist")
    return open_digits(spec, ": no MNIST was found (trireme data get mnist downloads it)");
  std::vector<std::string> names;
  for (const auto& folder : searched) names.push_back(folder.string());
  fail_user({.where = set.title,
             .what = "not found",
             .why = fmt::format("searched {}", fmt::join(names, ", ")),
             .next = fmt::format("download it with: trireme data get {}, or name its folder with --data-dir", set.name)});
}

}  // namespace trireme
