// How raw values become the numbers that a model reads: what a data set does to its samples, for exported models, run
// folders and reports.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "trireme/placement.h"

namespace trireme {

enum class ColumnKind { numeric, categorical };

/// The properties of a table's column, learned from the training rows.
struct FittedColumn {
  std::string name;
  ColumnKind kind = ColumnKind::numeric;
  double median = 0, mean = 0, deviation = 1;  ///< of numbers; mean and deviation with missing values replaced
  bool has_missing = false;
  std::vector<std::string> categories = {};  ///< in byte order
  int64_t first_feature = 0;
  int64_t missing = 0;  ///< training rows without a value

  int64_t features() const {
    return has_missing + (kind == ColumnKind::numeric ? 1 : static_cast<int64_t>(categories.size()));
  }
};

/// Images have `mean` and `deviation`, tables have `columns`; a set with neither has no form of its own: its samples
/// are what the model reads.
struct InputForm {
  // Images: a byte b of channel c becomes (b / 255 - mean[c]) / deviation[c].
  std::vector<double> mean = {}, deviation = {};

  // Tables. Raw samples have one number per column, in this order: a number, or the position of the value in
  // `categories`; NaN where the value is missing. A position that does not exist is an unknown value.
  std::vector<FittedColumn> columns = {};
  std::vector<std::string> left_out = {};  ///< columns that are not used
  std::string target = {};                 ///< the column to predict
  double target_unit = 1;                  ///< regression: a model's output is the column's value divided by it
  std::vector<std::string> labels = {};    ///< classification: of classes 0, 1, ...

  bool is_table() const { return !columns.empty(); }
};

/// Returns the shape of a raw sample, for a model that reads samples of `sample`.
Shape raw_shape(const InputForm& form, const Shape& sample);

/// How each feature of a table's sample is computed, as lists by feature, for code that computes all features at once.
/// x is the raw value of the feature's column. A number is (x - mean) / deviation, with the median if x is missing. A
/// category is 1 if x == code, else 0. A missing mark is 1 if x is NaN, else 0.
struct TableFeatures {
  std::vector<int64_t> column;
  std::vector<double> median, mean, deviation, code;
  std::vector<int64_t> is_number, is_category;  ///< 0 or 1; both 0: a missing mark
};
TableFeatures features_of(const InputForm& form);

/// inputs.json (docs/run-folder.md), and the entry kInputsKey of exported files.
nlohmann::json to_json(const InputForm& form);
/// Errors (user): not such JSON. `where`: its origin, for messages.
InputForm input_form_from(const nlohmann::json& json, const std::string& where);

/// The file in a run's folder.
inline constexpr const char* kInputsFile = "inputs.json";

/// Key in a file's metadata whose value is the text of to_json(InputForm).
inline constexpr const char* kInputsKey = "trireme.inputs";

}  // namespace trireme
