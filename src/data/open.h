// Finds and opens a data set by name.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/augment.h"
#include "data/dataset.h"
#include "data/on_error.h"
#include "data/table_spec.h"
#include "data/text_spec.h"

namespace trireme {

/// What the `[data]` table of an experiment says.
struct DataSpec {
  std::string name;                               ///< one of data_names()
  std::optional<std::filesystem::path> data_dir = {};  ///< --data-dir
  bool augment = false;                           ///< `augmentation`, or else the set's standard one (CIFAR: pad-4 crop and flip)
  int64_t train_limit = 0;                        ///< first k samples only (folders of classes: as many of each class); 0: all
  int64_t test_limit = 0;
  uint64_t seed = 0;                              ///< of generated data
  int64_t sequence = 0;                           ///< text: tokens per sample; 0: kDefaultSequence, of sentences see open_text.h
  std::optional<std::filesystem::path> path = {};      ///< the folder of the set itself, not to be searched for; "folder" needs it
  ImageSize image_size = {};                      ///< image files: height and width of a sample; 0: the set's own
  std::optional<Augmentation> augmentation = {};       ///< images: instead of the standard one
  OnError on_error = OnError::fail;               ///< what becomes of broken image files, rows of tables and lines of text
  std::vector<std::filesystem::path> train_files = {};  ///< "csv", "tensors", "labelled-text", "parallel-text", "text": the set itself
  std::vector<std::filesystem::path> test_files = {};
  TextSpec text = {};                             ///< sentences: how they become tokens
  TableSpec table = {};                           ///< "csv"
  TensorSpec tensors = {};                        ///< "tensors"
};

inline constexpr int64_t kDefaultSequence = 35;  ///< the usual one for Penn Treebank (Zaremba et al., 2014)

/// "mnist", "cifar10", "digits" (generated images), "ptb" (words), "generated-text", "cifar100", "tiny-imagenet", "folder" (any folder
/// of image files per class), "camvid", "coco", "california-housing", "adult", "csv" (any table), "tensors" (any arrays), "sst2", "multi30k",
/// "labelled-text", "parallel-text", "text" (any files of sentences).
const std::vector<std::string>& data_names();
/// Whether a set of this name has a standard augmentation.
bool has_augmentation(const std::string& name);
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
