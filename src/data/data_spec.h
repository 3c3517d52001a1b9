// What the `[data]` table of an experiment says.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/images/augment.h"
#include "data/on_error.h"
#include "data/tables/table_spec.h"
#include "data/text/text_spec.h"

namespace trireme {

struct DataSpec {
  std::string name;                                    ///< one of data_names()
  std::optional<std::filesystem::path> data_dir = {};  ///< --data-dir
  bool augment = false;     ///< `augmentation`, or else the set's standard one (CIFAR: pad-4 crop and flip)
  int64_t train_limit = 0;  ///< first k samples only (folders of classes: as many of each class); 0: all
  int64_t test_limit = 0;
  uint64_t seed = 0;     ///< of generated data
  int64_t sequence = 0;  ///< text: tokens per sample; 0: kDefaultSequence, of sentences see text_sets.h
  std::optional<std::filesystem::path> path = {};  ///< the folder of the set itself, not to be searched for
  ImageSize image_size = {};                       ///< image files: height and width of a sample; 0: the set's own
  std::optional<Augmentation> augmentation = {};   ///< images: instead of the standard one
  OnError on_error = OnError::fail;  ///< what becomes of broken image files, rows of tables and lines of text
  std::vector<std::filesystem::path> train_files = {};  ///< DataOrigin::own_files: the set itself
  std::vector<std::filesystem::path> test_files = {};
  TextSpec text = {};                                   ///< sentences: how they become tokens
  TableSpec table = {};                                 ///< tables
  TensorSpec tensors = {};                              ///< arrays
  std::map<std::string, std::string> own_options = {};  ///< keys of a registered set (trireme/dataset.h)
};

inline constexpr int64_t kDefaultSequence = 35;  ///< the usual one for Penn Treebank (Zaremba et al., 2014)

}  // namespace trireme
