// The data sets that Trireme knows by name: how they are recognised on disk and where they are downloaded from.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/download.h"

namespace trireme {

struct KnownSet {
  /// A file of the set by any of the names it goes by; "name/" is a folder.
  struct Part {
    std::vector<std::string> names;
    int64_t size = 0;  ///< of names[0] when whole; 0: not checked
  };

  std::string name;         ///< "mnist", as in experiments and commands
  std::string title;        ///< "MNIST"
  std::string description;  ///< one line
  std::vector<std::string> folders;  ///< names of the set's own folder; the first is the one downloads go to
  std::vector<Part> parts;           ///< any of them there: the folder holds the set, perhaps not whole
  std::vector<DownloadSource> sources;  ///< none: the set cannot be downloaded by us, `advice` says how to get it
  bool archived = false;             ///< the only source is an archive that unpacks to folders[0]
  std::string advice = {};           ///< where to get a set without sources, and what its folder holds: a sentence's end

  int64_t download_bytes() const;
};

/// The sets that are read from files, in the order they are listed.
const std::vector<KnownSet>& known_sets();

/// User error that lists the known names.
const KnownSet& known_set(const std::string& name);

/// The part's file or folder in `folder` under the first of its names that is there.
std::optional<std::filesystem::path> find_part(const std::filesystem::path& folder, const KnownSet::Part& part);

/// The first folder, of `searched` and their subfolders with the set's names, that holds a part of the set.
std::optional<std::filesystem::path> find_set(const KnownSet& set, const std::vector<std::filesystem::path>& searched);

/// What to do about a set that was not found.
std::string how_to_get(const KnownSet& set);

/// Downloads (and unpacks) what is missing of the set into `root`/folders[0] and returns that folder. TRIREME_MIRROR, when
/// set and options.base_url is not, replaces the publisher's addresses by TRIREME_MIRROR/<set name>/<file>. User error for a set
/// without sources.
std::filesystem::path get_set(const KnownSet& set, const std::filesystem::path& root, const ProgressCallback& progress = {},
                              DownloadOptions options = {});

}  // namespace trireme
