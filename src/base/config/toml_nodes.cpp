#include "base/config/toml_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <sstream>

#include "base/config/key_path.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// Writes the number with the fewest digits that identify it: 0.1, not 0.10000000000000001.
std::string shortest(double value) {
  std::string text = fmt::format("{}", value);
  return text.find_first_not_of("-0123456789") == text.npos ? text + ".0" : text;
}

std::string written(const toml::node& node) {
  if (const auto number = node.value_exact<double>()) return shortest(*number);
  std::ostringstream text;
  if (const auto* array = node.as_array(); array && !array->empty()) {
    text << "[";
    for (const toml::node& element : *array) text << (&element == array->get(0) ? " " : ", ") << written(element);
    text << " ]";
  } else {
    node.visit([&](const auto& value) { text << value; });
  }
  return text.str();
}

}  // namespace

std::string node_in_short(const toml::node& node) {
  std::string line = written(node);
  std::replace(line.begin(), line.end(), '\n', ' ');
  constexpr size_t kLongest = 60;
  if (line.size() > kLongest) line = line.substr(0, kLongest) + "...";
  return line;
}

toml::table parse_toml(std::string_view text, const std::string& name, bool has_lines) {
  try {
    return toml::parse(text, std::string_view(name));
  } catch (const toml::parse_error& error) {
    fail_user({.where = has_lines ? fmt::format("{}:{}", name, error.source().begin.line) : name,
               .what = has_lines ? fmt::format("not valid TOML at column {}", error.source().begin.column)
                                 : "is not valid TOML when its keys are written as lines",
               .why = std::string(error.description()),
               .next = "strings need quotes, tables are [name], lists are [1, 2]; see https://toml.io"});
  }
}

toml::table parse_override(std::string_view value) {
  try {
    toml::table parsed = toml::parse("value = " + std::string(value));
    if (parsed.size() == 1) return parsed;
  } catch (const toml::parse_error&) {
  }
  toml::table words;
  words.insert("value", std::string(value));
  return words;
}

nlohmann::json json_of_node(const toml::node& node) {
  if (const auto* table = node.as_table()) {
    nlohmann::json object = nlohmann::json::object();
    for (const auto& [key, value] : *table) object[std::string(key.str())] = json_of_node(value);
    return object;
  }
  if (const auto* array = node.as_array()) {
    nlohmann::json list = nlohmann::json::array();
    for (const auto& value : *array) list.push_back(json_of_node(value));
    return list;
  }
  if (auto value = node.value_exact<std::string>()) return *value;
  if (auto value = node.value_exact<int64_t>()) return *value;
  if (auto value = node.value_exact<double>()) return *value;
  if (auto value = node.value_exact<bool>()) return *value;
  return node_in_short(node);  // dates and times
}

bool holds_tables(const toml::node& node) {
  const auto* array = node.as_array();
  return array != nullptr && !array->empty() && array->is_homogeneous(toml::node_type::table);
}

void collect_toml_leaves(const toml::node& node, const std::string& path, const std::string& key,
                         std::vector<TomlLeaf>& leaves) {
  if (const auto* table = node.as_table(); table != nullptr && (!table->empty() || path.empty())) {
    for (const auto& [name, value] : *table)
      collect_toml_leaves(value, path_in(path, name.str()), std::string(name.str()), leaves);
  } else if (holds_tables(node)) {
    size_t i = 0;
    for (const auto& element : *node.as_array())
      collect_toml_leaves(element, fmt::format("{}[{}]", path, i++), key, leaves);
  } else {
    leaves.push_back({path, key});
  }
}

}  // namespace trireme
