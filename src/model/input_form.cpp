#include "model/input_form.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using nlohmann::json;

constexpr const char* kNumeric = "numeric";
constexpr const char* kCategorical = "categorical";

json to_json(const FittedColumn& column) {
  json entry{{"name", column.name}, {"missing", column.missing}, {"missing_feature", column.has_missing}};
  if (column.kind == ColumnKind::categorical) {
    entry["kind"] = kCategorical;
    entry["categories"] = column.categories;
  } else {
    entry["kind"] = kNumeric;
    entry["median"] = column.median;
    entry["mean"] = column.mean;
    entry["deviation"] = column.deviation;
  }
  return entry;
}

FittedColumn column_from(const json& entry) {
  FittedColumn column;
  entry.at("name").get_to(column.name);
  entry.at("missing").get_to(column.missing);
  entry.at("missing_feature").get_to(column.has_missing);
  if (entry.at("kind") == kCategorical) {
    column.kind = ColumnKind::categorical;
    entry.at("categories").get_to(column.categories);
    return column;
  }
  entry.at("median").get_to(column.median);
  entry.at("mean").get_to(column.mean);
  entry.at("deviation").get_to(column.deviation);
  return column;
}

}  // namespace

Shape raw_shape(const InputForm& form, const Shape& sample) {
  return form.is_table() ? Shape{static_cast<int64_t>(form.columns.size())} : sample;
}

TableFeatures features_of(const InputForm& form) {
  TableFeatures all;
  const auto add = [&](size_t column, double median, double mean, double deviation, double code, bool number,
                       bool category) {
    all.column.push_back(static_cast<int64_t>(column));
    all.median.push_back(median);
    all.mean.push_back(mean);
    all.deviation.push_back(deviation);
    all.code.push_back(code);
    all.is_number.push_back(number);
    all.is_category.push_back(category);
  };
  for (size_t c = 0; c < form.columns.size(); ++c) {
    const FittedColumn& column = form.columns[c];
    if (column.kind == ColumnKind::numeric) add(c, column.median, column.mean, column.deviation, 0, true, false);
    for (size_t k = 0; k < column.categories.size(); ++k) add(c, 0, 0, 1, static_cast<double>(k), false, true);
    if (column.has_missing) add(c, 0, 0, 1, 0, false, false);
  }
  return all;
}

json to_json(const InputForm& form) {
  if (!form.is_table()) return {{"kind", "image"}, {"scale", 255}, {"mean", form.mean}, {"deviation", form.deviation}};
  json columns = json::array();
  for (const FittedColumn& column : form.columns) columns.push_back(to_json(column));
  json target{{"name", form.target}};
  if (form.labels.empty()) target["unit"] = form.target_unit;
  else target["labels"] = form.labels;
  return {{"kind", "table"}, {"columns", std::move(columns)}, {"left_out", form.left_out}, {"target", target}};
}

InputForm input_form_from(const json& value, const std::string& where) {
  InputForm form;
  try {
    if (value.at("kind") == "image") {
      value.at("mean").get_to(form.mean);
      value.at("deviation").get_to(form.deviation);
      return form;
    }
    for (const json& entry : value.at("columns")) {
      FittedColumn column = column_from(entry);
      if (!form.columns.empty())
        column.first_feature = form.columns.back().first_feature + form.columns.back().features();
      form.columns.push_back(std::move(column));
    }
    value.at("left_out").get_to(form.left_out);
    const json& target = value.at("target");
    target.at("name").get_to(form.target);
    form.target_unit = target.value("unit", 1.0);
    form.labels = target.value("labels", std::vector<std::string>{});
  } catch (const json::exception& error) {
    fail_user({where, "does not describe inputs", first_line(error), "export from a run of this version of Trireme"});
  }
  return form;
}

}  // namespace trireme
