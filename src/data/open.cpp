#include "data/open.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "data/catalogue.h"
#include "data/images/image_sets.h"
#include "data/search_folders.h"
#include "data/task_data.h"
#include "data/text/text_sets.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// `must_exist`: the set is opened, not only described.
void check_files(const DataSpec& spec, const KnownSet& set, bool must_exist) {
  const bool is_files = set.origin == DataOrigin::own_files;
  if (is_files && must_exist && spec.train_files.empty())
    fail_user({.where = "data.train",
               .what = "missing",
               .why = fmt::format("data set \"{}\" consists of the files that you name", spec.name),
               .next = "name them: train = [\"file\"]; for predictions data.shape is enough"});
  if (!is_files && !(spec.train_files.empty() && spec.test_files.empty()))
    fail_user({.where = "data.train",
               .what = (spec.train_files.empty() ? spec.test_files : spec.train_files)[0].string(),
               .why = spec.name + " has its own files",
               .next = "leave train and test out"});
}

/// `must_exist`: the set is opened, not only described.
void check_path(const DataSpec& spec, const KnownSet& set, bool must_exist) {
  const bool generated = set.origin == DataOrigin::generated;
  std::error_code ignored;
  if (set.origin == DataOrigin::own_folder && !spec.path)
    fail_user({.where = "data.path",
               .what = "missing",
               .why = fmt::format("data set \"{}\" is in the folder that you name", spec.name),
               .next = set.advice});
  if (spec.path && (generated || set.origin == DataOrigin::own_files))
    fail_user({.where = "data.path",
               .what = spec.path->string(),
               .why = spec.name + (generated ? " is generated" : " consists of the files that train and test name"),
               .next = "leave it out"});
  if (must_exist && spec.path && !std::filesystem::is_directory(*spec.path, ignored))
    fail_user({.where = "data.path",
               .what = spec.path->string(),
               .why = "no such folder",
               .next = "name the folder of the set"});
}

void check_spec(const DataSpec& spec, const KnownSet& set, bool must_exist) {
  if (spec.sequence < 0 || (spec.sequence > 0 && !set.takes("sequence")))
    fail_user({.where = "data.sequence",
               .what = std::to_string(spec.sequence),
               .why = set.takes("sequence") ? "a sample holds at least one token" : spec.name + " is not a text",
               .next = set.takes("sequence") ? "set a positive number" : "leave it out"});
  if (spec.augment && !set.takes("augment"))
    fail_user({.where = "data.augment",
               .what = "true",
               .why = spec.name + " has no standard augmentation",
               .next = "set augment = false"});
  check_image_spec(spec);
  check_text_spec(spec);
  check_files(spec, set, must_exist);
  if (spec.on_error == OnError::skip && !set.takes("on_error"))
    fail_user({.where = "data.on_error",
               .what = "\"skip\"",
               .why = spec.name + " is read whole or not at all",
               .next = "leave it out"});
  check_path(spec, set, must_exist);
  for (auto [key, value] : {std::pair{"data.train_limit", spec.train_limit}, {"data.test_limit", spec.test_limit}})
    if (value < 0)
      fail_user({.where = key,
                 .what = std::to_string(value),
                 .why = "a number of samples is not negative",
                 .next = "0 takes all"});
  std::error_code ignored;
  if (spec.data_dir && !std::filesystem::is_directory(*spec.data_dir, ignored))
    fail_user({.where = "--data-dir",
               .what = spec.data_dir->string(),
               .why = "no such folder",
               .next = "name the folder that holds the data sets, or leave the option out"});
}

[[noreturn]] void fail_not_found(const KnownSet& set, const std::vector<std::filesystem::path>& searched) {
  std::vector<std::string> names;
  for (const auto& folder : searched) names.push_back(folder.string());
  fail_user({.where = set.title,
             .what = "not found",
             .why = fmt::format("searched {}", fmt::join(names, ", ")),
             .next = how_to_get(set)});
}

TaskData open_set(const DataSpec& spec, const KnownSet& set) {
  if (spec.path || set.origin != DataOrigin::searched) return set.open(spec, set, spec.path.value_or(""));
  const auto searched = data_search_path(spec.data_dir);
  if (auto folder = find_set(set, searched)) return set.open(spec, set, *folder);
  if (set.stand_in)
    return set.stand_in(spec, fmt::format(": no {} was found (trireme data get {} downloads it)", set.title, set.name));
  fail_not_found(set, searched);
}

/// Returns what is missing: a file or folder that the experiment names, or the title of a set that was searched for and
/// not found. nullopt if at least a part of the set is on this machine, or if it has a stand-in.
std::optional<std::string> absent_part(const DataSpec& spec, const KnownSet& set) {
  std::error_code ignored;
  if (set.origin == DataOrigin::own_files) {
    if (spec.train_files.empty() && spec.stated) return fmt::format("data set \"{}\"", set.name);
    for (const auto* files : {&spec.train_files, &spec.test_files})
      for (const auto& file : *files)
        if (!std::filesystem::exists(file, ignored)) return file.string();
    return std::nullopt;
  }
  if (spec.path) {
    if (std::filesystem::is_directory(*spec.path, ignored)) return std::nullopt;
    return spec.path->string();
  }
  if (set.origin != DataOrigin::searched || set.stand_in || find_set(set, data_search_path(spec.data_dir)))
    return std::nullopt;
  return set.title;
}

/// `missing`: keys of data.shape, and "task".
[[noreturn]] void fail_unknown_shape(const KnownSet& set, const std::string& absent,
                                     const std::vector<std::string>& missing) {
  std::vector<std::string> keys, stated;
  for (const std::string& key : missing) {
    if (key == "task") stated.emplace_back("data.task = \"...\"");
    else keys.push_back(key == "sample" ? "sample = [...]" : key + " = ...");
  }
  if (!keys.empty()) stated.push_back(fmt::format("data.shape = {{ {} }}", fmt::join(keys, ", ")));
  fail_user({.where = absent,
             .what = "not found",
             .why = fmt::format("to predict without the data of \"{}\", their {} must be stated", set.name,
                                fmt::join(missing, ", ")),
             .next = fmt::format("write {}, or {}", fmt::join(stated, " and "),
                                 set.origin == DataOrigin::searched ? how_to_get(set) : "correct the path")});
}

}  // namespace

TaskData open_data(const DataSpec& spec) {
  const KnownSet& set = known_set(spec.name);
  check_spec(spec, set, /*must_exist=*/true);
  TaskData data = open_set(spec, set);
  if (spec.stated) check_as_stated(*spec.stated, *data.train, spec.train_limit, data.source);
  return data;
}

TaskData open_data_or_shape(const DataSpec& spec) {
  const KnownSet& set = known_set(spec.name);
  const std::optional<std::string> absent = absent_part(spec, set);
  if (!absent) return open_data(spec);
  check_spec(spec, set, /*must_exist=*/false);
  SetShape shape = set.shape ? set.shape(spec) : SetShape{};
  if (!shape.task) shape.task = set.task;
  StatedShape stated = spec.stated.value_or(StatedShape{});
  const bool of_model = shape.tokens && shape.vocabulary == 0 && stated.vocabulary == 0 && spec.model_vocabulary > 0;
  if (of_model) stated.vocabulary = spec.model_vocabulary;
  std::vector<std::string> missing = complete(shape, stated);
  if (!shape.task) missing.insert(missing.begin(), "task");
  if (!missing.empty()) fail_unknown_shape(set, *absent, missing);
  shape.train = limited(spec.train_limit, shape.train);
  shape.test = limited(spec.test_limit, shape.test);
  return without_samples(shape, fmt::format("{} is not here; assumed{}: {}{}", *absent,
                                            spec.stated ? ", as far as stated from data.shape" : "", in_words(shape),
                                            of_model ? ", as the model knows" : ""));
}

}  // namespace trireme
