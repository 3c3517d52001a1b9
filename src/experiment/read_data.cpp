#include "experiment/read_data.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/open_images.h"
#include "data/open_text.h"
#include "experiment/own_keys.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLongestSequence = int64_t{1} << 20;  // tokens

/// Keys that only some data sets take, with these.
OwnKeys keys_of_sets() {
  const auto sets = [](auto&& take) {
    std::vector<std::string> names;
    for (const std::string& name : data_names())
      if (take(name)) names.push_back(name);
    return names;
  };
  OwnKeys keys{{"augmentation", sets(has_augmentation)}, {"image_size", sets(has_image_files)}, {"languages", {"multi30k"}},
               {"task", {"csv", "tensors"}}, {"classes", {"tensors"}},
               {"vocabulary", sets([](const std::string& name) { return takes_tokenizer(name) || name == "tensors"; })}};
  for (const char* key : {"tokenizer", "min_count", "lower", "model", "joint"}) keys.emplace_back(key, sets(takes_tokenizer));
  for (const char* key : {"target", "leave_out", "target_unit", "label_tail", "columns", "separator", "header", "missing", "test_share"})
    keys.emplace_back(key, std::vector<std::string>{"csv"});
  return keys;
}

/// The paths under a key, one or several, made absolute where they are relative to the experiment.
std::vector<fs::path> paths_of(const ConfigTable& table, const char* key, const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const std::string& path : table.get_strings(key, {})) paths.push_back(folder / path);
  return paths;
}

std::optional<fs::path> path_of(const ConfigTable& table, const char* key, const fs::path& folder) {
  if (!table.has(key)) return std::nullopt;
  return folder / table.require_string(key);
}

/// "[0.08, 1]" as two numbers, where the key is there.
bool read_range(const ConfigTable& table, const char* key, double& least, double& most) {
  if (!table.has(key)) return false;
  const std::vector<double> range = table.get_doubles(key, {});
  if (range.size() != 2) table.fail(key, fmt::format("{} numbers", range.size()), "write the least and the most: [0.08, 1.0]");
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

/// "64" for a square, or "[120, 160]".
ImageSize read_image_size(const ConfigTable& table) {
  const std::vector<int64_t> sides = table.get_ints("image_size", {});
  if (sides.empty() || sides.size() > 2)
    table.fail("image_size", fmt::format("{} numbers", sides.size()), "write a side, as 64, or height and width, as [120, 160]");
  if (*std::min_element(sides.begin(), sides.end()) < 1)
    table.fail("image_size", "a side has at least 1 pixel", "correct it, or leave it out");
  return {sides.front(), sides.back()};
}

void read_images(const ConfigTable& table, DataSpec& spec) {
  if (has_augmentation(spec.name)) {
    spec.augment = table.get_bool("augment", false);
    if (table.has("augmentation")) spec.augmentation = read_augmentation(table.table("augmentation"));
  } else if (table.get_bool("augment", false)) {
    table.fail("augment", spec.name + " has no standard augmentation", "set augment = false");
  }
  if (has_image_files(spec.name) && table.has("image_size")) spec.image_size = read_image_size(table);
}

void read_text(const ConfigTable& table, const fs::path& folder, DataSpec& spec) {
  spec.sequence = table.get_int("sequence", 0, 0);
  if (spec.sequence > kLongestSequence)
    table.fail("sequence", "no sample is that long", fmt::format("use at most {} tokens", kLongestSequence));
  if (spec.sequence > 0 && !is_text(spec.name)) table.fail("sequence", spec.name + " is no text", "leave it out");
  if (!takes_tokenizer(spec.name)) return;
  TextSpec& text = spec.text;
  text.tokenizer = table.get_string("tokenizer", text.tokenizer);
  text.vocabulary = table.get_int("vocabulary", text.vocabulary, 0);
  text.min_count = table.get_int("min_count", text.min_count, 0);
  text.lower = table.get_bool("lower", text.lower);
  text.joint = table.get_bool("joint", text.joint);
  text.model = path_of(table, "model", folder);
  if (spec.name != "multi30k" || !table.has("languages")) return;
  const std::vector<std::string> languages = table.get_strings("languages", {});
  if (languages.size() != 2)
    table.fail("languages", fmt::format("{} languages", languages.size()), "name the source and the target: [\"de\", \"en\"]");
  text.source = languages[0];
  text.target = languages[1];
}

std::optional<LearningTask> read_task(const ConfigTable& table) {
  if (!table.has("task")) return std::nullopt;
  constexpr LearningTask kTasks[] = {LearningTask::classification, LearningTask::segmentation, LearningTask::language,
                                     LearningTask::translation, LearningTask::regression};
  std::vector<std::string> names;
  for (LearningTask task : kTasks) names.emplace_back(name_of(task));
  const std::string chosen = table.get_choice("task", names.front(), names);
  return kTasks[std::find(names.begin(), names.end(), chosen) - names.begin()];
}

void read_table(const ConfigTable& table, DataSpec& spec) {
  TableSpec& t = spec.table;
  const std::string separator = table.get_string("separator", std::string(1, t.separator));
  if (separator.size() != 1) table.fail("separator", "is one character", "write \",\", \";\" or \"\\t\"");
  t.separator = separator.front();
  t.header = table.get_bool("header", t.header);
  t.missing = table.get_strings("missing", {});
  t.test_share = table.get_double("test_share", t.test_share, 0);
  TableOptions& columns = t.columns;
  columns.target = table.get_string("target", columns.target);
  columns.task = read_task(table);
  columns.left_out = table.get_strings("leave_out", {});
  columns.target_unit = table.get_double("target_unit", columns.target_unit);
  columns.label_tail = table.get_string("label_tail", columns.label_tail);
  const ConfigTable kinds = table.table("columns");
  for (const std::string& name : kinds.keys())
    columns.kinds[name] =
        kinds.get_choice(name, "", {"numeric", "categorical"}) == "numeric" ? ColumnKind::numeric : ColumnKind::categorical;
}

void read_tensors(const ConfigTable& table, DataSpec& spec) {
  spec.tensors.task = read_task(table);
  spec.tensors.classes = table.get_int("classes", 0, 0);
  spec.tensors.vocabulary = table.get_int("vocabulary", 0, 0);
}

}  // namespace

DataSpec read_data(const ConfigTable& table, const fs::path& folder) {
  DataSpec spec;
  table.require_string("name");
  spec.name = table.get_choice("name", "", data_names());
  refuse_keys_of_others(table, keys_of_sets(), spec.name, spec.name);
  spec.path = path_of(table, "path", folder);
  spec.train_files = paths_of(table, "train", folder);
  spec.test_files = paths_of(table, "test", folder);
  spec.train_limit = table.get_int("train_limit", 0, 0);
  spec.test_limit = table.get_int("test_limit", 0, 0);
  if (table.get_choice("on_error", "fail", {"fail", "skip"}) == "skip") spec.on_error = OnError::skip;
  read_images(table, spec);
  read_text(table, folder, spec);
  if (spec.name == "csv") read_table(table, spec);
  if (spec.name == "tensors") read_tensors(table, spec);
  return spec;
}

}  // namespace trireme
