// The `[data]` table of an experiment.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/images/augment.h"
#include "data/on_error.h"
#include "data/set_shape.h"
#include "data/tables/table_spec.h"
#include "data/text/text_spec.h"

namespace trireme {

struct DataSpec {
  std::string name;                                    ///< one of data_names()
  std::optional<std::filesystem::path> data_dir = {};  ///< --data-dir
  /// Augments with `augmentation`, or else with the set's standard augmentation (CIFAR: pad-4 crop and flip).
  bool augment = false;
  /// Uses only the first k samples (folders of classes: equally many of each class); 0: all.
  int64_t train_limit = 0;
  int64_t test_limit = 0;
  uint64_t seed = 0;     ///< of generated data
  int64_t sequence = 0;  ///< text: tokens per sample; 0: kDefaultSequence, for sentences see text_sets.h
  std::optional<std::filesystem::path> path = {};       ///< the set's own folder; no search
  ImageSize image_size = {};                            ///< images: height and width of a sample; 0: the set's own
  std::optional<Augmentation> augmentation = {};        ///< images: replaces the standard one
  OnError on_error = OnError::fail;                     ///< for broken image files, rows of tables and lines of text
  std::vector<std::filesystem::path> train_files = {};  ///< DataOrigin::own_files: the set's files
  std::vector<std::filesystem::path> test_files = {};
  TextSpec text = {};                                   ///< sentences: how they are cut into tokens
  TableSpec table = {};                                 ///< tables
  TensorSpec tensors = {};                              ///< arrays
  std::optional<StatedShape> stated = {};               ///< data.shape
  int64_t model_vocabulary = 0;                         ///< token ids that the model knows, if its options say so; or 0
  std::map<std::string, std::string> own_options = {};  ///< keys of a registered set (trireme/dataset.h)
};

inline constexpr int64_t kDefaultSequence = 35;  ///< the usual one for Penn Treebank (Zaremba et al., 2014)

}  // namespace trireme
