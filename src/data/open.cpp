#include "data/open.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "data/catalogue.h"
#include "data/generated_digits.h"
#include "data/generated_text.h"
#include "data/idx.h"
#include "data/image_dataset.h"
#include "data/open_images.h"
#include "data/open_tables.h"
#include "data/open_text.h"
#include "data/source_words.h"
#include "data/text_stream.h"
#include "data/words.h"

namespace trireme {
namespace {

constexpr int64_t kDigitClasses = 10;

std::optional<std::filesystem::path> environment_path(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::filesystem::path(value);
}

TaskData make_task(Images train, Images test, int64_t classes, const Normalization& normalization) {
  TaskData task;
  task.train = std::make_shared<ImageDataset>(std::move(train), classes, normalization);
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
  TaskData task = make_task(std::move(train), std::move(test), kDigitClasses, {{0.1307}, {0.3081}});
  task.source = std::move(source);
  return task;
}

TaskData open_digits(const DataSpec& spec, const std::string& reason) {
  auto count = [](int64_t limit, int64_t whole) { return limit > 0 ? std::min(limit, whole) : whole; };
  Images train = generate_digits(DigitSplit::train, count(spec.train_limit, kDigitTrain), spec.seed);
  Images test = generate_digits(DigitSplit::test, count(spec.test_limit, kDigitTest), spec.seed);
  std::string source = "generated digits" + reason + used_part(train.count(), kDigitTrain, test.count(), kDigitTest);
  TaskData task = make_task(std::move(train), std::move(test), kDigitClasses, digit_normalization());
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
  if (spec.name == "ptb") return open_ptb(spec, set, folder);
  if (is_table(spec.name)) return open_table_set(spec, set, folder);
  return takes_tokenizer(spec.name) ? open_text_set(spec, set, folder) : open_image_set(spec, set, folder);
}

/// Whether the set is the files that the spec names.
bool is_files(const std::string& name) {
  return name == "csv" || name == "tensors" || name == "labelled-text" || name == "parallel-text" || name == "text";
}

TaskData open_files(const DataSpec& spec) {
  if (spec.name == "csv") return open_csv(spec);
  if (spec.name == "tensors") return open_tensors(spec);
  if (spec.name == "labelled-text") return open_labelled_text(spec);
  return spec.name == "parallel-text" ? open_parallel_text(spec) : open_plain_text(spec);
}

void check_files(const DataSpec& spec) {
  if (is_files(spec.name) && spec.train_files.empty())
    fail_user({.where = "data.train", .what = "missing", .why = fmt::format("data set \"{}\" is the files that you name", spec.name),
               .next = "name them: train = [\"file\"]"});
  if (!is_files(spec.name) && !(spec.train_files.empty() && spec.test_files.empty()))
    fail_user({.where = "data.train", .what = (spec.train_files.empty() ? spec.test_files : spec.train_files)[0].string(),
               .why = spec.name + " has its own files", .next = "leave train and test out"});
}

void check_path(const DataSpec& spec) {
  const bool generated = spec.name == "digits" || spec.name == "generated-text";
  std::error_code ignored;
  if (spec.name == "folder" && !spec.path)
    fail_user({.where = "data.path", .what = "missing", .why = "data set \"folder\" is where you say it is",
               .next = "name the folder that holds train/ and val/"});
  if (spec.path && (generated || is_files(spec.name)))
    fail_user({.where = "data.path", .what = spec.path->string(),
               .why = spec.name + (generated ? " is generated" : " is the files that train and test name"), .next = "leave it out"});
  if (spec.path && !std::filesystem::is_directory(*spec.path, ignored))
    fail_user({.where = "data.path", .what = spec.path->string(), .why = "no such folder", .next = "name the folder of the set"});
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
  if (spec.augment && !has_augmentation(spec.name))
    fail_user({.where = "data.augment", .what = "true", .why = spec.name + " has no standard augmentation",
               .next = "set augment = false"});
  check_image_spec(spec);
  check_text_spec(spec);
  check_files(spec);
  if (spec.on_error == OnError::skip && !has_image_files(spec.name) && !is_table(spec.name) && !takes_tokenizer(spec.name))
    fail_user({.where = "data.on_error", .what = "\"skip\"", .why = spec.name + " is read whole or not at all", .next = "leave it out"});
  check_path(spec);
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
  static const std::vector<std::string> names{"mnist",    "cifar10",       "digits", "ptb",    "generated-text",
                                              "cifar100", "tiny-imagenet", "folder", "camvid", "coco",
                                              "california-housing", "adult", "csv", "tensors", "sst2", "multi30k", "labelled-text",
                                              "parallel-text", "text"};
  return names;
}

bool has_augmentation(const std::string& name) { return name == "cifar10" || name == "cifar100" || has_image_files(name); }

bool is_text(const std::string& name) { return name == "ptb" || name == "generated-text" || takes_tokenizer(name); }

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
  if (spec.name == "folder") return open_folder(spec);
  if (is_files(spec.name)) return open_files(spec);
  const KnownSet& set = known_set(spec.name);
  if (spec.path) return open_found(spec, set, *spec.path);
  const auto searched = data_search_path(spec.data_dir);
  if (auto folder = find_set(set, searched)) return open_found(spec, set, *folder);
  if (spec.name == "mnist")
    return open_digits(spec, ": no MNIST was found (trireme data get mnist downloads it)");
  std::vector<std::string> names;
  for (const auto& folder : searched) names.push_back(folder.string());
  fail_user({.where = set.title,
             .what = "not found",
             .why = fmt::format("searched {}", fmt::join(names, ", ")),
             .next = how_to_get(set)});
}

}  // namespace trireme
