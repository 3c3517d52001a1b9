// oracle_data: shows what the readers read from files that oracle_data.py writes. Reads a JSON list of requests from
// standard input, each a list of words, and writes the list of answers.
//   csv FILE SEPARATOR             rows of fields
//   npy FILE, npz FILE             dtype, shape and values as hexadecimal bytes, by name
//   table TRAIN TEST TARGET        feature names, labels, and the encoded rows of both files
//   words FILE, lower FILE         each line split by the rules 13a; each line in lower case
#include <ATen/ATen.h>

#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "data/tables/npy.h"
#include "data/tables/table.h"
#include "data/text/split_words.h"
#include "data/text/text_lines.h"
#include "data/text/utf8.h"
#include "trireme/error.h"

namespace trireme {

using nlohmann::json;

namespace {

json rows_of(const CsvTable& table) {
  json rows = json::array();
  for (int64_t r = 0; r < table.rows(); ++r) {
    json row = json::array();
    for (int64_t c = 0; c < table.columns(); ++c) row.push_back(std::string(table.field(r, c)));
    rows.push_back(row);
  }
  return rows;
}

json describe(const at::Tensor& tensor) {
  std::string hex;
  const auto* bytes = static_cast<const uint8_t*>(tensor.data_ptr());
  for (size_t i = 0; i < tensor.nbytes(); ++i) hex += fmt::format("{:02x}", bytes[i]);
  return {{"dtype", c10::toString(tensor.scalar_type())}, {"shape", tensor.sizes().vec()}, {"bytes", hex}};
}

json values_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.to(at::kDouble).contiguous();
  return std::vector<double>(flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel());
}

json encode(const std::string& train_file, const std::string& test_file, const std::string& target) {
  const CsvTable train = read_csv(train_file, {.trim = true}), test = read_csv(test_file, {.trim = true});
  std::vector<int64_t> train_rows(size_t(train.rows())), test_rows(size_t(test.rows()));
  std::iota(train_rows.begin(), train_rows.end(), int64_t{0});
  std::iota(test_rows.begin(), test_rows.end(), int64_t{0});
  const TableEncoder encoder(train, train_rows, {.target = target});
  const auto a = encoder.encode(train, train_rows), b = encoder.encode(test, test_rows);
  return {{"features", encoder.feature_names()}, {"labels", encoder.labels()},
          {"unknown", b.unknown_categories},     {"train", values_of(a.data)},
          {"train_target", values_of(a.target)}, {"test", values_of(b.data)},
          {"test_target", values_of(b.target)}};
}

json lines_of(const std::string& what, const std::string& file) {
  json lines = json::array();
  for (const TextLine& line : read_lines(file, "check the path")) {
    if (what == "words") lines.push_back(split_13a(line.text));
    else lines.push_back(to_lower(line.text));
  }
  return lines;
}

json answer(const std::vector<std::string>& arguments) {
  const std::string& what = arguments.at(0);
  if (what == "csv") return rows_of(read_csv(arguments.at(1), {.separator = arguments.at(2).at(0), .header = false}));
  if (what == "npy") return describe(read_npy(arguments.at(1)));
  if (what == "table") return encode(arguments.at(1), arguments.at(2), arguments.at(3));
  if (what == "words" || what == "lower") return lines_of(what, arguments.at(1));
  json arrays = json::object();
  for (const auto& [name, array] : read_npz(arguments.at(1))) arrays[name] = describe(array);
  return arrays;
}

}  // namespace
}  // namespace trireme

int main() {
  try {
    trireme::json answers = trireme::json::array();
    for (const auto& request : trireme::json::parse(std::cin)) answers.push_back(trireme::answer(request));
    std::cout << answers.dump() << "\n";
  } catch (const trireme::Error& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
