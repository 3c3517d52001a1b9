#include "experiment/read_data.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/catalogue.h"
#include "experiment/own_keys.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLongestSequence = int64_t{1} << 20;  // tokens

/// Returns the keys that only some data sets accept, with these sets. augment, sequence and on_error are checked below,
/// or when the set is opened.
OwnKeys keys_of_sets() {
  OwnKeys keys;
  for (const KnownSet& set : known_sets())
    for (const std::string& key : set.keys) {
      if (is_common_data_key(key)) continue;
      auto known = std::find_if(keys.begin(), keys.end(), [&](const auto& entry) { return entry.first == key; });
      if (known == keys.end()) known = keys.insert(keys.end(), {key, {}});
      known->second.push_back(set.name);
    }
  return keys;
}

/// Returns the paths of a key, one or several. Relative paths count from the experiment's folder.
std::vector<fs::path> paths_of(const ConfigTable& table, const char* key, const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const std::string& path : table.get_strings(key, {})) paths.push_back(folder / path);
  return paths;
}

std::optional<fs::path> path_of(const ConfigTable& table, const char* key, const fs::path& folder) {
  if (!table.has(key)) return std::nullopt;
  return folder / table.require_string(key);
}

/// Returns the tokens of a sample; 0: the set's default.
int64_t read_sequence(const ConfigTable& table, const KnownSet& set) {
  if (!table.has("sequence")) return 0;
  if (!set.takes("sequence")) table.fail("sequence", set.name + " is not a text", "leave it out");
  const int64_t tokens = table.get_int("sequence", 0);
  if (tokens < 1) table.fail("sequence", "a sample has at least 1 token", "leave it out for the set's usual length");
  if (tokens > kLongestSequence)
    table.fail("sequence", "no sample is that long", fmt::format("use at most {} tokens", kLongestSequence));
  return tokens;
}

StatedShape read_shape(const ConfigTable& table) {
  StatedShape shape;
  for (const int64_t size : table.get_ints("sample", {})) {
    if (size < 1) table.fail("sample", "every dim has at least 1 entry", "write for example [3, 32, 32]");
    shape.sample.push_back(size);
  }
  shape.classes = table.get_int("classes", 0, 1);
  shape.vocabulary = table.get_int("vocabulary", 0, 1);
  shape.train = table.get_int("train", 0, 1);
  return shape;
}

}  // namespace

DataSpec read_data(const ConfigTable& table, const fs::path& folder) {
  DataSpec spec;
  table.require_string("name");
  spec.name = table.get_choice("name", "", data_names());
  const KnownSet& set = known_set(spec.name);
  refuse_keys_of_others(table, keys_of_sets(), spec.name, spec.name);
  spec.path = path_of(table, "path", folder);
  spec.train_files = paths_of(table, "train", folder);
  spec.test_files = paths_of(table, "test", folder);
  spec.train_limit = table.get_int("train_limit", 0, 0);
  spec.test_limit = table.get_int("test_limit", 0, 0);
  if (table.get_choice("on_error", "fail", {"fail", "skip"}) == "skip") spec.on_error = OnError::skip;
  if (!set.takes("augment") && table.get_bool("augment", false))
    table.fail("augment", spec.name + " has no standard augmentation", "set augment = false");
  spec.sequence = read_sequence(table, set);
  if (table.has("shape")) spec.stated = read_shape(table.table("shape"));
  if (set.read) set.read(table, folder, spec);
  return spec;
}

}  // namespace trireme
