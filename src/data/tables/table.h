// Tables as numbers: the columns of a CSV file become features and a target.
//
// A numeric column is one feature: missing values are filled with the training median, then the training mean is taken
// off and the training deviation divided by (a constant column becomes 0). Where the training rows lack values a second
// feature is 1 for the filled ones and 0 elsewhere. A categorical column is one feature per value that the training
// rows have, in byte order: 1 for the row's own, 0 for the others; missing is a value of its own where the training
// rows lack any. A value that the training rows do not have is 0 everywhere, and counted.
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
#include "trireme/task.h"

namespace trireme {

enum class ColumnKind { numeric, categorical };

struct TableOptions {
  std::string target = {};  ///< the column to predict; empty: the last
  std::optional<LearningTask> task =
      {};  ///< regression or classification; empty: what the target column's kind suggests
  std::map<std::string, ColumnKind> kinds = {};  ///< of columns whose kind is stated
  std::vector<std::string> left_out = {};        ///< columns that are neither feature nor target
  double target_unit = 1;                        ///< regression: a target is the column's value divided by it
  std::string label_tail = {};       ///< classification: dropped from the end of labels ("." in Adult's test file)
  OnError on_error = OnError::fail;  ///< rows without target, with an unknown label or text in a numeric column
};

/// A finite decimal number that is the whole of `text`.
std::optional<double> parse_number(std::string_view text);

/// What the training rows say about a column.
struct FittedColumn {
  std::string name;
  ColumnKind kind = ColumnKind::numeric;
  double median = 0, mean = 0, deviation = 1;  ///< of numbers; mean and deviation with missing ones filled in
  bool has_missing = false;
  std::vector<std::string> categories = {};  ///< in byte order
  int64_t first_feature = 0;

  int64_t features() const {
    return has_missing + (kind == ColumnKind::numeric ? 1 : static_cast<int64_t>(categories.size()));
  }
};

/// Learns from training rows how columns become numbers. Immutable; safe from many threads.
class TableEncoder {
 public:
  static constexpr int64_t kMaxCategories = 1000;  ///< of a feature
  static constexpr double kNearlyAll = 0.9;  ///< share of a column's values that are numbers: what is not is an error

  /// A column is numeric when every value that its training rows have is a number, else categorical, unless
  /// `options.kinds` says. One in which nearly all are numbers (infinite ones count here) is taken for numeric with
  /// errors in it: a user error that names the first in the file, with OnError::skip rows to leave out. `rows`: those
  /// of `training` to learn from. User errors: an option that names no column, a column without any value, a
  /// categorical feature of more than kMaxCategories values, text in a column that is stated to be numeric, a target
  /// with one class only, another task.
  TableEncoder(const CsvTable& training, std::span<const int64_t> rows, TableOptions options);

  struct Encoded {
    at::Tensor data;                 ///< float32 [n, features]
    at::Tensor target;               ///< float32 [n, 1] for regression, int64 [n] for classification
    int64_t unknown_categories = 0;  ///< values that the training rows do not have
    int64_t skipped = 0;             ///< rows left out with OnError::skip
  };

  /// The chosen rows of a table with the same columns, in any order. User errors, with file:line:column: a column
  /// missing or surplus, and those of `on_error`.
  Encoded encode(const CsvTable& table, std::span<const int64_t> rows) const;

  LearningTask task() const { return task_; }
  /// Labels to tell apart, 1 for regression.
  int64_t classes() const { return task_ == LearningTask::regression ? 1 : static_cast<int64_t>(labels_.size()); }
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
