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
#include "data/set_shape.h"
#include "trireme/config.h"
#include "trireme/dataset.h"

namespace trireme {

/// True for the keys of [data] that are read in the same way for every set that accepts them.
inline bool is_common_data_key(std::string_view key) {
  return key == "augment" || key == "sequence" || key == "on_error" || key == "shape";
}

/// Where a set's samples come from.
enum class DataOrigin {
  searched,    ///< a folder that is searched for by the set's names
  generated,   ///< Trireme generates them
  own_folder,  ///< the folder that data.path names
  own_files    ///< the files that data.train and data.test name
};

struct KnownSet {
  /// A file of the set under any of its names; "name/" is a folder.
  struct Part {
    std::vector<std::string> names;
    int64_t size = 0;  ///< bytes of names[0] when whole; 0: not checked
  };

  std::string name;                       ///< "mnist", as in experiments and commands
  std::string title;                      ///< "MNIST"
  std::string description;                ///< one line
  std::optional<LearningTask> task = {};  ///< empty: the files or the experiment determine it
  DataOrigin origin = DataOrigin::searched;
  std::vector<std::string> folders = {};  ///< names of the set's own folder; downloads go to the first
  /// The set's files. A folder with any of them holds the set, perhaps not whole. Empty: the files of `sources`.
  std::vector<Part> parts = {};
  /// Empty: Trireme cannot download the set; `advice` says how to get it.
  std::vector<DownloadSource> sources = {};
  bool archived = false;    ///< the only source is an archive that unpacks to folders[0]
  std::string advice = {};  ///< where to get it, and what its folder holds; ends a sentence

  /// The keys of [data] that this set accepts, beyond those that every set accepts.
  std::vector<std::string> keys = {};
  /// Reads these keys; relative paths count from `folder`. Null: there are no keys except augment, sequence and
  /// on_error.
  void (*read)(const ConfigTable& table, const std::filesystem::path& folder, DataSpec& spec) = nullptr;
  /// Opens the set. `folder`: where it was found, or spec.path. User errors: a file of the set is missing or damaged.
  TaskData (*open)(const DataSpec& spec, const KnownSet& set, const std::filesystem::path& folder) = nullptr;
  /// Of a registered set (trireme/dataset.h), which `open` passes the request to; null: a built-in set.
  TaskData (*open_own)(const DataRequest& request) = nullptr;
  /// Opens a stand-in if the set is not found; `reason` becomes part of TaskData::source. Null: a set that is not found
  /// is an error.
  TaskData (*stand_in)(const DataSpec& spec, const std::string& reason) = nullptr;

  /// Returns what is known of the set without its files. Null: nothing.
  SetShape (*shape)(const DataSpec& spec) = nullptr;

  bool takes(std::string_view key) const;
  int64_t download_bytes() const;
  /// Returns the beginning of TaskData::source: "MNIST, /data/mnist".
  std::string found_in(const std::filesystem::path& folder) const { return title + ", " + folder.string(); }
};

/// All sets, in the order in which they are listed.
const std::vector<KnownSet>& known_sets();

/// Their names.
const std::vector<std::string>& data_names();

/// Returns null if no set has this name.
const KnownSet* find_known_set(const std::string& name);

/// Throws a user error that lists the known names if no set has this name.
const KnownSet& known_set(const std::string& name);

/// Returns the part's file or folder in `folder`, under the first of its names that exists.
std::optional<std::filesystem::path> find_part(const std::filesystem::path& folder, const KnownSet::Part& part);

/// Returns the first folder, among `searched` and their subfolders with the set's names, that holds a part of the set.
std::optional<std::filesystem::path> find_set(const KnownSet& set, const std::vector<std::filesystem::path>& searched);

/// Returns the advice for a set that was not found.
std::string how_to_get(const KnownSet& set);

/// Returns the advice for a damaged file of a set that can be downloaded: "delete the file and get the set again:
/// trireme data get mnist".
std::string how_to_get_again(const std::string& name);

/// Downloads (and unpacks) the missing files of the set into `root`/folders[0], and returns that folder. If
/// TRIREME_MIRROR is set and options.base_url is not, TRIREME_MIRROR/<set name>/<file> replaces the publisher's
/// addresses. User error for a set without sources.
std::filesystem::path get_set(const KnownSet& set, const std::filesystem::path& root,
                              const ProgressCallback& progress = {}, DownloadOptions options = {});

}  // namespace trireme
