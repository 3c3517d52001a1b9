// What an experiment says about a table, or about arrays.
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
  std::vector<std::string> missing = {};  ///< fields that stand for no value, beside the usual ones (csv.h)
  TableOptions columns = {};              ///< on_error is DataSpec's
  double test_share = 0.2;                ///< of the rows, where there is no test file
};

struct TensorSpec {
  std::optional<LearningTask> task = {};  ///< empty: what dtypes and shapes suggest
  int64_t classes = 0;                    ///< 0: one more than the largest target
  int64_t vocabulary = 0;                 ///< data are token ids below it; 0: data are numbers
};

}  // namespace trireme
