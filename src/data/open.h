// Finds and opens a data set by name.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace trireme {

/// What the `[data]` table of an experiment says.
struct DataSpec {
  std::string name;                               ///< one of data_names()
  std::optional<std::filesystem::path> data_dir = {};  ///< --data-dir
  bool augment = false;                           ///< the set's standard augmentation (CIFAR: pad-4 crop and flip)
  int64_t train_limit = 0;                        ///< first k samples only; 0: all
  int64_t test_limit = 0;
  uint64_t seed = 0;                              ///< of generated data
  int64_t sequence = 0;                           ///< text: tokens per sample; 0: kDefaultSequence
};

inline constexpr int64_t kDefaultSequence = 35;  ///< the usual one for Penn Treebank (Zaremba et al., 2014)

/// "mnist", "cifar10", "digits" (generated images), "ptb" (words), "generated-text".
const std::vector<std::string>& data_names();
/// Whether a set of this name is text: takes DataSpec::sequence.
bool is_text(const std::string& name);

/// Folders that are searched, in order: --data-dir, TRIREME_DATA, the cache folder
/// (TRIREME_CACHE, else XDG_CACHE_HOME/trireme, else ~/.cache/trireme), ../shared/data. Each is tried with and without
/// the set's own folder name below it.
std::vector<std::filesystem::path> data_search_path(const std::optional<std::filesystem::path>& data_dir);

/// Where `trireme data get` puts sets unless told otherwise: TRIREME_CACHE, else XDG_CACHE_HOME/trireme, else
/// ~/.cache/trireme (else .cache/trireme where there is no HOME).
std::filesystem::path cache_folder();

/// Opens the set. MNIST that is nowhere found is replaced by the generated digits and TaskData::source says so; any other
/// missing set is a user error that lists the folders searched and the command that downloads it. A set of which only some
/// files are found is a user error too, as is a --data-dir that does not exist.
TaskData open_data(const DataSpec& spec);

}  // namespace trireme
