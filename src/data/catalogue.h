// The data sets that Trireme knows by name. Each is described by one function in a file of its own in sets/;
// catalogue.cpp lists them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/data_spec.h"
#include "data/download/download.h"
#include "trireme/config.h"
#include "trireme/dataset.h"

namespace trireme {

/// Keys of [data] that are read alike for every set that takes them.
inline bool is_common_data_key(std::string_view key) {
  return key == "augment" || key == "sequence" || key == "on_error";
}

/// Where a set's samples come from.
enum class DataOrigin {
  searched,    ///< a folder that is looked for by the set's names
  generated,   ///< nowhere: trireme makes them
  own_folder,  ///< the folder that data.path names
  own_files    ///< the files that data.train and data.test name
};

struct KnownSet {
  /// A file of the set by any of the names it goes by; "name/" is a folder.
  struct Part {
    std::vector<std::string> names;
    int64_t size = 0;  ///< of names[0] when whole; 0: not checked
  };

  std::string name;                       ///< "mnist", as in experiments and commands
  std::string title;                      ///< "MNIST"
  std::string description;                ///< one line
  std::optional<LearningTask> task = {};  ///< empty: the files or the experiment say it
  DataOrigin origin = DataOrigin::searched;
  std::vector<std::string> folders = {};  ///< names of the set's own folder; the first is the one downloads go to
  std::vector<Part> parts =
      {};  ///< any of them there: the folder holds the set, perhaps not whole; none given: the sources' files
  std::vector<DownloadSource> sources = {};  ///< none: the set cannot be downloaded by us, `advice` says how to get it
  bool archived = false;                     ///< the only source is an archive that unpacks to folders[0]
  std::string advice = {};                   ///< where to get it, and what its folder holds: a sentence's end

  /// Keys of [data] that the set takes, of those that not every set takes.
  std::vector<std::string> keys = {};
  /// Reads these keys; relative paths count from `folder`. Null: there are none but augment, sequence and on_error.
  void (*read)(const ConfigTable& table, const std::filesystem::path& folder, DataSpec& spec) = nullptr;
  /// Opens the set; `folder` is where it was found, or spec.path. User errors: a file of the set is missing or damaged.
  TaskData (*open)(const DataSpec& spec, const KnownSet& set, const std::filesystem::path& folder) = nullptr;
  /// Of a registered set (trireme/dataset.h), which `open` passes the request to; null: a built-in set.
  TaskData (*open_own)(const DataRequest& request) = nullptr;
  /// What is opened instead where the set is not found; `reason` goes into TaskData::source. Null: that is an error.
  TaskData (*stand_in)(const DataSpec& spec, const std::string& reason) = nullptr;

  bool takes(std::string_view key) const;
  int64_t download_bytes() const;
  /// "MNIST, /data/mnist": how a source's words begin.
  std::string found_in(const std::filesystem::path& folder) const { return title + ", " + folder.string(); }
};

/// In the order in which they are listed: built-in ones, then registered ones.
const std::vector<KnownSet>& known_sets();

/// Their names.
const std::vector<std::string>& data_names();

/// Null: no set has this name.
const KnownSet* find_known_set(const std::string& name);

/// User error that lists the known names.
const KnownSet& known_set(const std::string& name);

/// The part's file or folder in `folder` under the first of its names that is there.
std::optional<std::filesystem::path> find_part(const std::filesystem::path& folder, const KnownSet::Part& part);

/// The first folder, of `searched` and their subfolders with the set's names, that holds a part of the set.
std::optional<std::filesystem::path> find_set(const KnownSet& set, const std::vector<std::filesystem::path>& searched);

/// What to do about a set that was not found.
std::string how_to_get(const KnownSet& set);

/// What to do about a damaged file of a set that can be downloaded: "delete the file and get the set again: trireme
/// data get mnist".
std::string how_to_get_again(const std::string& name);

/// Downloads (and unpacks) what is missing of the set into `root`/folders[0] and returns that folder. TRIREME_MIRROR,
/// when set and options.base_url is not, replaces the publisher's addresses by TRIREME_MIRROR/<set name>/<file>. User
/// error for a set without sources.
std::filesystem::path get_set(const KnownSet& set, const std::filesystem::path& root,
                              const ProgressCallback& progress = {}, DownloadOptions options = {});

}  // namespace trireme
