// The shape of a data set, known without its files: all that predictions and plans need of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/text/token_rows.h"
#include "trireme/dataset.h"

namespace trireme {

/// What an experiment states about its data: data.shape. Numbers that are 0, and an empty sample, are not stated.
struct StatedShape {
  Shape sample = {};       ///< of a sample, as the model gets it: [3, 32, 32], [13], [64]
  int64_t classes = 0;     ///< or values to predict
  int64_t vocabulary = 0;  ///< token ids
  int64_t train = 0;       ///< number of training samples
};

/// Facts of a set that do not depend on its files, under an experiment's keys. Numbers that are 0, and an empty sample,
/// depend on the files.
struct SetShape {
  std::optional<LearningTask> task = {};
  Shape sample = {};
  Shape target = {};
  int64_t classes = 0;
  int64_t vocabulary = 0;
  int64_t train = 0;
  int64_t test = 0;
  PartLengths padded = {};  ///< of sentences; {0, 0}: samples have no padding
  bool tokens = false;      ///< the samples are token ids
  bool is_stream = false;
  bool decodes = false;
};

/// Completes the known facts. Stated values replace the set's known ones. A sample that is stated determines the
/// targets of pixels and tokens. Returns the keys of data.shape that are missing still.
std::vector<std::string> complete(SetShape& shape, const StatedShape& stated);

/// Returns "50,000 training samples of [3, 32, 32], 10 classes".
std::string in_words(const SetShape& shape);

/// Returns data of this shape, without samples: to ask for one is an internal error. `shape` is complete.
TaskData without_samples(const SetShape& shape, std::string source);

/// False for a set that without_samples made.
bool has_samples(const Dataset& set);

/// Throws a user error if the opened set is not as stated. `limit`: of the training samples; 0: all are used.
void check_as_stated(const StatedShape& stated, const Dataset& train, int64_t limit, const std::string& source);

}  // namespace trireme
