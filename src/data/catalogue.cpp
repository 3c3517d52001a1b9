#include "data/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/additions.h"
#include "base/text.h"
#include "data/download/archive.h"
#include "trireme/error.h"

// One line for each set; sets/<name>.cpp has a function of this name.
#define TRIREME_DATA_SETS(SET) \
  SET(mnist)                   \
  SET(cifar10)                 \
  SET(digits)                  \
  SET(ptb)                     \
  SET(generated_text)          \
  SET(cifar100)                \
  SET(tiny_imagenet)           \
  SET(folder)                  \
  SET(camvid)                  \
  SET(coco)                    \
  SET(california_housing)      \
  SET(adult)                   \
  SET(csv)                     \
  SET(tensors)                 \
  SET(sst2)                    \
  SET(multi30k)                \
  SET(labelled_text)           \
  SET(parallel_text)           \
  SET(text)

namespace trireme {

#define TRIREME_DECLARE(name) KnownSet name();
namespace sets {
TRIREME_DATA_SETS(TRIREME_DECLARE)
}

namespace {

Additions<DataSetKind>& additions() {
  static Additions<DataSetKind> sets("data set");
  return sets;
}

TaskData open_registered(const DataSpec& spec, const KnownSet& set, const std::filesystem::path& folder) {
  return set.open_own({.folder = folder,
                       .seed = spec.seed,
                       .train_limit = spec.train_limit,
                       .test_limit = spec.test_limit,
                       .sequence = spec.sequence,
                       .options = spec.own_options});
}

void read_own_options(const ConfigTable& table, const std::filesystem::path&, DataSpec& spec) {
  for (const std::string& key : known_set(spec.name).keys)
    if (!is_common_data_key(key) && table.has(key)) spec.own_options[key] = table.require_string(key);
}

KnownSet known_set_of(DataSetKind kind) {
  KnownSet set{.name = kind.name,
               .title = kind.title.empty() ? kind.name : kind.title,
               .description = kind.description,
               .task = kind.task,
               .origin = kind.folders.empty() ? DataOrigin::generated : DataOrigin::searched,
               .folders = kind.folders,
               .advice = kind.advice,
               .keys = kind.keys,
               .read = kind.keys.empty() ? nullptr : read_own_options,
               .open = open_registered,
               .open_own = kind.open};
  for (const std::string& file : kind.files) set.parts.push_back({{file}});
  return set;
}

bool is_whole(const KnownSet& set, const std::filesystem::path& folder) {
  for (const auto& part : set.parts) {
    std::error_code missing;
    auto size = std::filesystem::file_size(folder / part.names.front(), missing);
    if (missing || static_cast<int64_t>(size) != part.size) return false;
  }
  return true;
}

}  // namespace

bool KnownSet::takes(std::string_view key) const { return std::find(keys.begin(), keys.end(), key) != keys.end(); }

int64_t KnownSet::download_bytes() const {
  int64_t bytes = 0;
  for (const auto& source : sources) bytes += source.size;
  return bytes;
}

const std::vector<KnownSet>& known_sets() {
#define TRIREME_CALL(name) sets::name(),
  static const std::vector<KnownSet> sets = [] {
    std::vector<KnownSet> all{TRIREME_DATA_SETS(TRIREME_CALL)};
    for (KnownSet& set : all)
      if (set.parts.empty())
        for (const DownloadSource& source : set.sources) set.parts.push_back({{source.file}, source.size});
    additions().take(all, known_set_of);
    return all;
  }();
  return sets;
}

bool register_data_set(const DataSetKind& set) { return additions().add(set); }

const std::vector<std::string>& data_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const KnownSet& set : known_sets()) all.push_back(set.name);
    return all;
  }();
  return names;
}

const KnownSet* find_known_set(const std::string& name) {
  for (const KnownSet& set : known_sets())
    if (set.name == name) return &set;
  return nullptr;
}

const KnownSet& known_set(const std::string& name) {
  if (const KnownSet* set = find_known_set(name)) return *set;
  fail_user({.where = "data.name",
             .what = "\"" + name + "\"",
             .why = "no data set has this name",
             .next = "choose one of " + join(data_names())});
}

std::optional<std::filesystem::path> find_part(const std::filesystem::path& folder, const KnownSet::Part& part) {
  for (const auto& name : part.names) {
    std::error_code ignored;
    const bool is_there = name.ends_with('/') ? std::filesystem::is_directory(folder / name, ignored)
                                              : std::filesystem::is_regular_file(folder / name, ignored);
    if (is_there) return folder / name;
  }
  return std::nullopt;
}

std::optional<std::filesystem::path> find_set(const KnownSet& set, const std::vector<std::filesystem::path>& searched) {
  for (const auto& root : searched) {
    std::vector<std::filesystem::path> candidates{root};
    for (const auto& folder : set.folders) candidates.push_back(root / folder);
    for (const auto& folder : candidates)
      for (const auto& part : set.parts)
        if (find_part(folder, part)) return folder;
  }
  return std::nullopt;
}

std::string how_to_get(const KnownSet& set) {
  if (set.sources.empty())
    return fmt::format("{}; call the folder {} and name its parent folder with --data-dir", set.advice,
                       set.folders.front());
  return fmt::format("download it with: trireme data get {}, or name its folder with --data-dir", set.name);
}

std::string how_to_get_again(const std::string& name) {
  return "delete the file and get the set again: trireme data get " + name;
}

std::filesystem::path get_set(const KnownSet& set, const std::filesystem::path& root, const ProgressCallback& progress,
                              DownloadOptions options) {
  if (set.sources.empty())
    fail_user({.where = set.title, .what = "cannot be downloaded by trireme", .why = "", .next = how_to_get(set)});
  const char* mirror = std::getenv("TRIREME_MIRROR");
  if (!options.base_url && mirror != nullptr && *mirror != '\0') {
    std::string base = mirror;
    options.base_url = base + (base.ends_with('/') ? "" : "/") + set.name;
  }
  const auto folder = root / set.folders.front();
  if (!set.archived) {
    download(set.sources, folder, progress, options);
    return folder;
  }
  const DownloadSource& source = set.sources.front();
  if (is_whole(set, folder)) {
    if (progress) progress({source.file, "", source.size, source.size, true});
    return folder;
  }
  download(set.sources, root, progress, options);
  unpack(root / source.file, root);
  if (!is_whole(set, folder))
    fail_run({.where = folder.string(),
              .what = "incomplete after unpacking " + source.file,
              .why = "a file is missing or has another size than published",
              .next = "delete the folder and try again"});
  std::filesystem::remove(root / source.file);
  return folder;
}

}  // namespace trireme
