// An experiment's settings for a table, or for arrays.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/tables/table.h"

namespace trireme {

struct TableSpec {
  char separator = ',';
  bool header = true;                     ///< the first row names the columns
  std::vector<std::string> missing = {};  ///< fields that mean "no value", in addition to the usual ones (csv.h)
  TableOptions columns = {};              ///< its on_error is not used; DataSpec's is
  double test_share = 0.2;                ///< share of the rows, if there is no test file
};

struct TensorSpec {
  std::optional<LearningTask> task = {};  ///< empty: determined by dtypes and shapes
  int64_t classes = 0;                    ///< 0: one more than the largest target
  int64_t vocabulary = 0;                 ///< number of token ids in the data; 0: data are numbers
};

}  // namespace trireme
