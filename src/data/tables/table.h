// Converts tables to numbers: the columns of a CSV file become features and a target.
//
// A numeric column is one feature. Missing values are replaced by the training median; then the training mean is
// subtracted and the result divided by the training deviation (a constant column becomes 0). If the training rows lack
// values, a second feature is 1 for the replaced values and 0 for others. A categorical column is one feature per value
// that the training rows have, in byte order: 1 for the row's own value, 0 for the others. If the training rows lack
// some values, "missing" is one more value. A value that the training rows do not have gives 0 in all features and is
// counted.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tables/csv.h"
#include "model/input_form.h"
#include "trireme/model.h"

namespace trireme {

struct TableOptions {
  std::string target = {};  ///< the column to predict; empty: the last
  /// Regression or classification. Empty: determined by the kind of the target column.
  std::optional<LearningTask> task = {};
  std::map<std::string, ColumnKind> kinds = {};  ///< kinds of columns that are stated
  std::vector<std::string> left_out = {};        ///< columns that are neither feature nor target
  double target_unit = 1;                        ///< regression: a target is the column's value divided by it
  std::string label_tail = {};  ///< classification: removed from the end of labels ("." in Adult's test file)
  /// For rows without a target, with an unknown label, or with text in a numeric column.
  OnError on_error = OnError::fail;
};

/// Returns the finite decimal number that the whole of `text` represents; nullopt if it does not. A number too small
/// for a double is 0.
std::optional<double> parse_number(std::string_view text);

/// Learns from training rows how columns become numbers. Immutable; thread-safe.
class TableEncoder {
 public:
  static constexpr int64_t kMaxCategories = 1000;  ///< values of a categorical column
  static constexpr double kNearlyAll = 0.9;  ///< if this share of a column's values are numbers, the others are errors

  /// A column is numeric if all its values in the training rows are numbers, else categorical, unless `options.kinds`
  /// states it. CsvTable::is_missing_number does not count as a value; in a categorical column such a word is a
  /// category unless CsvTable::is_missing. A column in which nearly all values are numbers (infinite ones count here)
  /// is considered numeric with errors: a user error names the first in the file; with OnError::skip, these rows are
  /// left out. `rows`: the rows of `training` from which to learn. User errors: an option that names no column; a
  /// column without any value; a categorical feature of more than kMaxCategories values; text in a column that is
  /// stated to be numeric; a target with one class only; another task; an option
  /// that has no effect on the task.
  TableEncoder(const CsvTable& training, std::span<const int64_t> rows, TableOptions options);

  struct Encoded {
    at::Tensor data;                 ///< float32 [n, features]
    at::Tensor target;               ///< float32 [n, 1] for regression, int64 [n] for classification
    int64_t unknown_categories = 0;  ///< values that the training rows do not have
    int64_t skipped = 0;             ///< rows left out with OnError::skip
  };

  /// Encodes the given rows of a table with the same columns, in any order. User errors, with file:line:column: a
  /// column missing or surplus; those of `on_error`.
  Encoded encode(const CsvTable& table, std::span<const int64_t> rows) const;

  LearningTask task() const { return task_; }
  /// Number of labels; 1 for regression.
  int64_t classes() const { return task_ == LearningTask::regression ? 1 : static_cast<int64_t>(labels_.size()); }
  /// Returns all that raw rows need to become samples.
  InputForm form() const;
  const std::vector<std::string>& labels() const { return labels_; }           ///< in byte order: the classes
  const std::vector<std::string>& feature_names() const { return features_; }  ///< "age", "age missing", "sex = Male"

 private:
  std::vector<int64_t> places_in(const CsvTable& table) const;
  double target_at(const CsvTable& table, int64_t row, int64_t column) const;

  TableOptions options_;
  std::string target_;
  LearningTask task_ = LearningTask::classification;
  std::vector<FittedColumn> columns_;
  std::vector<std::string> features_;
  std::vector<std::string> labels_;
};

}  // namespace trireme
