// Data sets: samples by index, for training and for testing; data sets of your own.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/model.h"
#include "trireme/placement.h"

namespace trireme {

/// Samples stacked along dim 0.
struct Samples {
  at::Tensor data;  ///< [n, ...sample shape]: float32, NCHW and channels_last for images; int64 token ids for text
  /// int64 [n, ...target shape]: [n] for classification; for segmentation one class per pixel, with -1
  /// for pixels that count neither in the loss nor in a metric. float32 for regression, and [n, classes] for
  /// classification with mixup: shares that add up to 1.
  at::Tensor target;
};

/// Key of the random augmentation: seed and epoch (and the sample's index), never the worker.
struct Draw {
  uint64_t seed = 0;
  int64_t epoch = 0;
  bool augment = false;  ///< false when evaluating
};

/// Immutable after construction; `get` may be called from many threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  virtual Shape sample_shape() const = 0;
  virtual Shape target_shape() const { return {}; }  ///< of one sample: a class index, or one per token
  virtual LearningTask task() const { return LearningTask::classification; }
  /// Number of classes (of samples, pixels or next tokens); for regression, the number of values to predict.
  virtual int64_t classes() const = 0;
  /// Size of the vocabulary: token ids in `data` are 0 .. vocabulary - 1, with kPadding after a sample's end. 0: `data`
  /// holds no tokens.
  virtual int64_t vocabulary() const { return 0; }
  /// True if sample i + 1 continues sample i (windows of one text). Row r of a batch then continues row r of the batch
  /// before, except in the first batch of an epoch and in a short one at its end.
  virtual bool is_stream() const { return false; }
  /// True if `get` reads or decodes files, so that loading ahead of training is worthwhile.
  virtual bool decodes() const { return false; }
  /// Returns the samples at `indices` (0 to size() - 1), in that order, augmented as `draw` says. Throws an Error if a
  /// file cannot be read.
  virtual Samples get(std::span<const int64_t> indices, const Draw& draw) const = 0;
};

/// Not public: a data set of your own leaves TaskData::inputs null.
struct InputForm;

/// A training set and a test set, and their origin in words ("MNIST, /data/mnist" or "generated digits: no MNIST was
/// found").
struct TaskData {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;
  std::string source;
  bool generated = false;
  /// How raw values become samples, for run folders and exported models; null: samples are raw values.
  std::shared_ptr<const InputForm> inputs = {};
};

/// The request to open a data set: the values of an experiment's [data] table, and the folder of the set.
struct DataRequest {
  std::filesystem::path folder = {};                ///< where the set was found; empty where it has no files
  uint64_t seed = 0;                                ///< for generated samples
  int64_t train_limit = 0;                          ///< number of training samples to use, from the first on; 0: all
  int64_t test_limit = 0;                           ///< likewise, of test samples
  int64_t sequence = 0;                             ///< tokens of a sample; 0: the set's default
  std::map<std::string, std::string> options = {};  ///< the values of DataSetKind::keys that the table has
};

struct DataSetKind {
  std::string name = {};                  ///< in experiments: data = { name = "..." }
  std::string title = {};                 ///< for messages and reports: "MNIST"
  std::string description = {};           ///< one line
  std::optional<LearningTask> task = {};  ///< nullopt: depends on the set's files, or on the key `task` of [data]
  /// Names of the folder with the set's files, which is searched for in --data-dir, in TRIREME_DATA and in the cache.
  /// Empty: the set has no files, it is generated.
  std::vector<std::string> folders = {};
  std::vector<std::string> files = {};  ///< a folder with any of these files holds the set
  std::string advice = {};              ///< how to get the files: the end of a sentence, for errors
  std::vector<std::string> keys = {};   ///< keys of [data] that only this set takes; their values are strings
  /// Opens train and test set. Errors (user): a file is missing or damaged, an option has a bad value.
  TaskData (*open)(const DataRequest& request) = nullptr;
};

/// Adds a data set of your own. `set` is copied. Call it by static initialisation or at the start of main; not
/// thread-safe. Returns true. Errors (user): the list of data sets has been read already. A name that exists is
/// reported when the list is read.
bool register_data_set(const DataSetKind& set);

/// Opens a data set as the [data] table of an experiment does. `table`: TOML, "name = \"digits\"\ntrain_limit = 4000".
/// Errors (user): an unknown set or key; a set that is not found, with how to get it; damaged files.
TaskData open_data_set(const std::string& table, uint64_t seed = 1);

}  // namespace trireme
