#include "data/tables/table.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>

#include "base/median.h"
#include "base/text.h"
#include "data/source_words.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using Rows = std::span<const int64_t>;

/// A row that cannot be encoded. It is caught if rows are left out; otherwise it becomes a user error.
struct BadRow {
  Diagnosis diagnosis;
};

int64_t column_named(const CsvTable& table, const std::string& name, const char* key) {
  const auto& names = table.names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return found - names.begin();
  const std::string near = closest_match(name, names);
  fail_user({.where = key,
             .what = fmt::format("\"{}\"", name),
             .why = table.file() + " has no such column",
             .next = near.empty() ? "choose one of " + join(names) : fmt::format("did you mean \"{}\"?", near)});
}

/// Returns a value in quotes, for messages. Control characters are written as \xNN; a long value is cut.
std::string shown(std::string_view value) {
  constexpr size_t kLongest = 60;
  std::string text = "\"";
  for (const char c : value) {
    const bool begins_character = (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    if (text.size() > kLongest && begins_character) return text + "...\"";
    const bool is_control = static_cast<unsigned char>(c) < ' ' || c == '\x7f';
    text += is_control ? fmt::format("\\x{:02x}", static_cast<unsigned char>(c)) : std::string(1, c);
  }
  return text + "\"";
}

/// The key of [data] that leaves a column out.
std::string leave_out_key(const std::string& column) { return fmt::format("leave_out = [\"{}\"]", column); }

/// Describes a value that is not a number, in a numeric column.
Diagnosis no_number(const CsvTable& table, int64_t row, int64_t column, std::string why) {
  const std::string& name = table.names()[static_cast<size_t>(column)];
  return {
      .where = table.position(row, column),
      .what = fmt::format("{} in column \"{}\"", shown(table.field(row, column)), name),
      .why = std::move(why),
      .next = fmt::format(
          "correct it, or say in [data] what it is: columns.\"{}\" = \"categorical\" where the column holds words, "
          "missing = [{}] where it marks a missing value, on_error = \"skip\" to leave such rows out, {} to leave the "
          "column out",
          name, shown(table.field(row, column)), leave_out_key(name))};
}

/// True if the field has no value in a column of this kind.
bool lacks_value(const CsvTable& table, int64_t row, int64_t column, ColumnKind kind) {
  return kind == ColumnKind::numeric ? table.is_missing_number(row, column) : table.is_missing(row, column);
}

/// Returns the number of a numeric column. Throws BadRow if the value is not a number.
double number_at(const CsvTable& table, int64_t row, int64_t column) {
  if (const auto number = parse_number(table.field(row, column))) return *number;
  throw BadRow{no_number(table, row, column, "the column holds numbers")};
}

std::string_view without_plus(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  return text;
}

/// True if the whole text has the form of a number, even one that training cannot use: an infinity, or a number too
/// large for a double.
bool is_written_as_number(std::string_view text) {
  text = without_plus(text);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error != std::errc::invalid_argument && end == text.data() + text.size();
}

/// Returns `value`. Training stores it in float32; throws BadRow if it exceeds that range.
double checked_for_float(double value, const CsvTable& table, int64_t row, int64_t column) {
  if (std::abs(value) <= double{std::numeric_limits<float>::max()}) return value;
  throw BadRow{
      {.where = table.position(row, column),
       .what = fmt::format("\"{}\"", table.field(row, column)),
       .why = fmt::format("the number of column \"{}\" exceeds float32", table.names()[static_cast<size_t>(column)]),
       .next = "correct it, scale the column (of targets: data.target_unit), or leave such rows out: data.on_error = "
               "\"skip\""}};
}

ColumnKind kind_of(const CsvTable& table, Rows rows, int64_t column, const TableOptions& options) {
  const auto stated = options.kinds.find(table.names()[static_cast<size_t>(column)]);
  if (stated != options.kinds.end()) return stated->second;
  int64_t present = 0, numbers = 0, like_numbers = 0, words = 0;
  int64_t stray = table.rows();  // first row of the file whose value is not a usable number
  for (const int64_t row : rows) {
    if (table.is_missing_number(row, column)) {
      words += !table.is_missing(row, column);
      continue;
    }
    ++present;
    const bool is_number = parse_number(table.field(row, column)).has_value();
    numbers += is_number;
    like_numbers += is_number || is_written_as_number(table.field(row, column));
    if (!is_number) stray = std::min(stray, row);
  }
  const bool only_words = present == 0 && words > 0;
  if (only_words || static_cast<double>(like_numbers) < TableEncoder::kNearlyAll * static_cast<double>(present))
    return ColumnKind::categorical;
  if (numbers < present && options.on_error == OnError::fail)
    fail_user(
        no_number(table, stray, column,
                  fmt::format("{} of its {} values are finite numbers", with_commas(numbers), with_commas(present))));
  return ColumnKind::numeric;
}

void fit_numbers(FittedColumn& fitted, const CsvTable& table, Rows rows, int64_t column, OnError on_error) {
  std::vector<double> values;
  int64_t missing = 0;
  for (const int64_t row : rows) {
    if (table.is_missing_number(row, column)) ++missing;
    else if (auto number = parse_number(table.field(row, column))) values.push_back(*number);
    else if (on_error == OnError::fail) number_at(table, row, column);  // throws
  }
  if (values.empty()) return;
  fitted.missing = missing;
  fitted.has_missing = missing > 0;
  fitted.median = median(values);
  const double count = static_cast<double>(values.size()) + static_cast<double>(missing);
  double sum = fitted.median * static_cast<double>(missing), squares = 0;
  for (const double v : values) sum += v;
  fitted.mean = sum / count;
  for (const double v : values) squares += (v - fitted.mean) * (v - fitted.mean);
  squares += static_cast<double>(missing) * (fitted.median - fitted.mean) * (fitted.median - fitted.mean);
  fitted.deviation = std::sqrt(squares / count);
  if (!std::isfinite(fitted.deviation))
    fail_user({.where = fmt::format("{}, column \"{}\"", table.file(), fitted.name),
               .what = "numbers too large for a standard deviation",
               .why = "their squares exceed the range of a double",
               .next = "scale the column, or leave it out: " + leave_out_key(fitted.name)});
  // because of rounding, the deviation of a constant column may not be exactly 0
  if (!(fitted.deviation > 1e-12 * std::abs(fitted.mean))) fitted.deviation = 1;
}

void fit_categories(FittedColumn& fitted, const CsvTable& table, Rows rows, int64_t column) {
  std::set<std::string, std::less<>> values;
  for (const int64_t row : rows) {
    if (table.is_missing(row, column)) ++fitted.missing;
    else if (const std::string_view value = table.field(row, column); !values.contains(value)) values.emplace(value);
    if (static_cast<int64_t>(values.size()) > TableEncoder::kMaxCategories)
      fail_user(
          {.where = fmt::format("{}, column \"{}\"", table.file(), fitted.name),
           .what = fmt::format("more than {} different values", TableEncoder::kMaxCategories),
           .why = "a categorical column becomes one feature per value",
           .next = fmt::format("leave the column out: {}; or state that it is numeric: columns.\"{}\" = \"numeric\"",
                               leave_out_key(fitted.name), fitted.name)});
  }
  fitted.has_missing = fitted.missing > 0;
  fitted.categories.assign(values.begin(), values.end());
}

FittedColumn fit(const CsvTable& table, Rows rows, int64_t column, const TableOptions& options) {
  FittedColumn fitted{.name = table.names()[static_cast<size_t>(column)],
                      .kind = kind_of(table, rows, column, options)};
  const bool empty =
      std::all_of(rows.begin(), rows.end(), [&](int64_t row) { return lacks_value(table, row, column, fitted.kind); });
  if (empty)
    fail_user({.where = fmt::format("{}, column \"{}\"", table.file(), fitted.name),
               .what = "no values",
               .why = "no training row has a value",
               .next = "leave the column out: " + leave_out_key(fitted.name)});
  try {
    if (fitted.kind == ColumnKind::numeric) fit_numbers(fitted, table, rows, column, options.on_error);
    else fit_categories(fitted, table, rows, column);
  } catch (const BadRow& bad) {
    fail_user(bad.diagnosis);
  }
  return fitted;
}

void add_feature_names(const FittedColumn& column, std::vector<std::string>& names) {
  if (column.kind == ColumnKind::numeric) names.push_back(column.name);
  for (const std::string& category : column.categories) names.push_back(column.name + " = " + category);
  if (column.has_missing) names.push_back(column.name + " missing");
}

/// Encodes a field. `features` begins at the column's first feature and holds zeros. Throws BadRow.
void encode_field(const FittedColumn& fitted, const CsvTable& table, int64_t row, int64_t column, float* features,
                  int64_t& unknown) {
  const bool missing = lacks_value(table, row, column, fitted.kind);
  if (fitted.kind == ColumnKind::numeric) {
    const double value = missing ? fitted.median : number_at(table, row, column);
    features[0] = static_cast<float>(checked_for_float((value - fitted.mean) / fitted.deviation, table, row, column));
    if (missing && fitted.has_missing) features[1] = 1;
    return;
  }
  const auto& known = fitted.categories;
  const auto place = std::lower_bound(known.begin(), known.end(), table.field(row, column));
  if (!missing && place != known.end() && *place == table.field(row, column)) features[place - known.begin()] = 1;
  else if (missing && fitted.has_missing) features[known.size()] = 1;
  else ++unknown;
}

std::string_view label_at(const CsvTable& table, int64_t row, int64_t column, const std::string& tail) {
  std::string_view label = table.field(row, column);
  if (!tail.empty() && label.ends_with(tail)) label.remove_suffix(tail.size());
  return label;
}

void check_target_present(const CsvTable& table, int64_t row, int64_t column, ColumnKind kind) {
  if (lacks_value(table, row, column, kind))
    throw BadRow{{.where = table.position(row, column),
                  .what = "no target",
                  .why = fmt::format("every row needs a value in \"{}\"", table.names()[static_cast<size_t>(column)]),
                  .next = "correct it, or leave such rows out: data.on_error = \"skip\""}};
}

std::vector<std::string> labels_of(const CsvTable& table, Rows rows, int64_t column, const TableOptions& options) {
  std::set<std::string, std::less<>> labels;
  for (const int64_t row : rows)
    if (!table.is_missing(row, column)) labels.emplace(label_at(table, row, column, options.label_tail));
  if (labels.size() < 2)
    fail_user({.where = fmt::format("{}, column \"{}\"", table.file(), table.names()[static_cast<size_t>(column)]),
               .what = fmt::format("{} different labels", labels.size()),
               .why = "classification needs at least two labels",
               .next = "choose another target"});
  return {labels.begin(), labels.end()};
}

/// Errors (user): the task is not one of tables, or an option would have no effect on it.
void check_task(LearningTask task, const TableOptions& options) {
  if (task != LearningTask::regression && task != LearningTask::classification)
    fail_user({.where = "data.task",
               .what = name_of(task),
               .why = "a table is for regression or classification",
               .next = "choose one of the two"});
  if (task == LearningTask::classification && options.target_unit != 1)
    fail_user({.where = "data.target_unit",
               .what = fmt::format("{}", options.target_unit),
               .why = "the task is classification, whose targets are labels and not numbers",
               .next = "leave it out, or set data.task = \"regression\""});
  if (task == LearningTask::regression && !options.label_tail.empty())
    fail_user({.where = "data.label_tail",
               .what = shown(options.label_tail),
               .why = "the task is regression, whose targets are numbers and not labels",
               .next = "leave it out, or set data.task = \"classification\""});
}

}  // namespace

std::optional<double> parse_number(std::string_view text) {
  text = without_plus(text);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size()) return std::nullopt;
  // too large or too small for a double: from_chars does not say which
  if (error == std::errc::result_out_of_range) value = std::strtod(std::string(text).c_str(), nullptr);
  else if (error != std::errc()) return std::nullopt;
  if (!std::isfinite(value)) return std::nullopt;
  return value;
}

TableEncoder::TableEncoder(const CsvTable& training, std::span<const int64_t> rows, TableOptions options)
    : options_(std::move(options)) {
  const int64_t target =
      options_.target.empty() ? training.columns() - 1 : column_named(training, options_.target, "data.target");
  target_ = training.names()[static_cast<size_t>(target)];
  for (const auto& [name, kind] : options_.kinds) column_named(training, name, "data.columns");
  for (const std::string& name : options_.left_out)
    if (column_named(training, name, "data.leave_out") == target)
      fail_user({.where = "data.leave_out",
                 .what = fmt::format("\"{}\"", name),
                 .why = "it is the target",
                 .next = "name other columns, or choose another target"});
  const auto suggested = [&] {
    return kind_of(training, rows, target, options_) == ColumnKind::numeric ? LearningTask::regression
                                                                            : LearningTask::classification;
  };
  task_ = options_.task ? *options_.task : suggested();
  check_task(task_, options_);
  if (task_ == LearningTask::classification) labels_ = labels_of(training, rows, target, options_);
  int64_t next = 0;
  for (int64_t column = 0; column < training.columns(); ++column) {
    const std::string& name = training.names()[static_cast<size_t>(column)];
    const auto& out = options_.left_out;
    if (column == target || std::find(out.begin(), out.end(), name) != out.end()) continue;
    FittedColumn fitted = fit(training, rows, column, options_);
    fitted.first_feature = next;
    next += fitted.features();
    add_feature_names(fitted, features_);
    columns_.push_back(std::move(fitted));
  }
  if (columns_.empty())
    fail_user({.where = training.file(),
               .what = "no features",
               .why = "the target is the only column",
               .next = "check the separator"});
}

/// Returns the positions of the encoder's columns in another table. User errors: a column is missing or surplus.
std::vector<int64_t> TableEncoder::places_in(const CsvTable& table) const {
  std::vector<int64_t> places;
  for (const FittedColumn& column : columns_) places.push_back(column_named(table, column.name, "data"));
  for (const std::string& name : table.names()) {
    const auto& out = options_.left_out;
    const bool known =
        name == target_ || std::find(out.begin(), out.end(), name) != out.end() ||
        std::any_of(columns_.begin(), columns_.end(), [&](const FittedColumn& c) { return c.name == name; });
    if (!known)
      fail_user({.where = table.file(),
                 .what = fmt::format("column \"{}\"", name),
                 .why = "the training rows have no such column",
                 .next = "leave it out of the file, or name it in leave_out"});
  }
  return places;
}

InputForm TableEncoder::form() const {
  return {.columns = columns_,
          .left_out = options_.left_out,
          .target = target_,
          .target_unit = options_.target_unit,
          .labels = labels_};
}

/// Throws BadRow.
double TableEncoder::target_at(const CsvTable& table, int64_t row, int64_t column) const {
  check_target_present(table, row, column,
                       task_ == LearningTask::regression ? ColumnKind::numeric : ColumnKind::categorical);
  if (task_ == LearningTask::regression && !parse_number(table.field(row, column)))
    throw BadRow{{.where = table.position(row, column),
                  .what = fmt::format("{} in column \"{}\"", shown(table.field(row, column)),
                                      table.names()[static_cast<size_t>(column)]),
                  .why = "the target of a regression is a number",
                  .next = "correct it, leave such rows out with data.on_error = \"skip\", or set data.task = "
                          "\"classification\" if the column holds classes"}};
  if (task_ == LearningTask::regression)
    return checked_for_float(number_at(table, row, column) / options_.target_unit, table, row, column);
  const std::string_view label = label_at(table, row, column, options_.label_tail);
  const auto place = std::lower_bound(labels_.begin(), labels_.end(), label);
  if (place == labels_.end() || *place != label)
    throw BadRow{{.where = table.position(row, column),
                  .what = "label " + shown(label),
                  .why = "the training rows have no such label",
                  .next = "correct it, or leave such rows out: data.on_error = \"skip\""}};
  return static_cast<double>(place - labels_.begin());
}

TableEncoder::Encoded TableEncoder::encode(const CsvTable& table, std::span<const int64_t> rows) const {
  const int64_t target_column = column_named(table, target_, "data.target");
  const std::vector<int64_t> places = places_in(table);
  Encoded encoded;
  std::vector<float> data;
  std::vector<double> targets;
  data.reserve(rows.size() * features_.size());
  for (const int64_t row : rows) {
    const size_t first = data.size();
    data.resize(first + features_.size());
    int64_t unknown = 0;
    try {
      for (size_t c = 0; c < columns_.size(); ++c)
        encode_field(columns_[c], table, row, places[c], data.data() + first + columns_[c].first_feature, unknown);
      targets.push_back(target_at(table, row, target_column));
      encoded.unknown_categories += unknown;
    } catch (const BadRow& bad) {
      if (options_.on_error == OnError::fail) fail_user(bad.diagnosis);
      data.resize(first);
      ++encoded.skipped;
    }
  }
  const auto n = static_cast<int64_t>(targets.size()), width = static_cast<int64_t>(features_.size());
  encoded.data = at::from_blob(data.data(), {n, width}, at::kFloat).clone();
  const at::Tensor all = at::from_blob(targets.data(), {n}, at::kDouble);
  encoded.target = task_ == LearningTask::regression ? all.to(at::kFloat).view({n, 1}) : all.to(at::kLong);
  return encoded;
}

}  // namespace trireme
