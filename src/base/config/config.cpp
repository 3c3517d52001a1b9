#include "trireme/config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <toml++/toml.h>
#include <nlohmann/json.hpp>

#include "base/config/assignment.h"
#include "base/config/key_path.h"
#include "base/config/toml_nodes.h"
#include "base/config/unknown_key.h"
#include "base/json_file.h"
#include "base/text.h"
#include "base/units.h"
#include "trireme/error.h"

namespace trireme {

struct ConfigTable::Document {
  std::string name;        ///< the file, for messages
  bool has_lines = true;   ///< messages state the line
  bool takes_set = false;  ///< messages about missing keys name --set
  toml::table root;
  std::set<std::string> known;                    ///< full paths that a getter has requested, present or not
  std::map<std::string, std::string> overridden;  ///< full path -> "--set path=value"
  std::map<std::string, std::string>
      short_forms;  ///< full path -> key of the table that a string at this path is short for

  /// Returns the node at `path` (in `parent`, under `name`). A string that is the short form of a table is first
  /// replaced by that table.
  toml::node* expanded(const std::string& path, toml::table& parent, std::string_view name);
};

namespace {

/// Splits "[a, b]" and "a,b". In a list given to --set, the words have no quotes.
std::vector<std::string> split_list(std::string_view text) {
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  std::vector<std::string> words;
  std::istringstream stream{std::string(text)};
  for (std::string word; std::getline(stream, word, ',');) {
    size_t begin = word.find_first_not_of(" \t\""), end = word.find_last_not_of(" \t\"");
    if (begin != std::string::npos) words.push_back(word.substr(begin, end - begin + 1));
  }
  return words;
}

}  // namespace

/// One look-up: the node under a key. The key counts as known from then on.
struct ConfigTable::Reader {
  Reader(const ConfigTable& table, std::string_view key) : table(table), key(key) {
    path = table.path_to(key);
    table.document_->known.insert(path);
    node = find(*table.document_, path);
  }

  static const toml::node* find(const Document& document, const std::string& path) {
    const toml::node* node = &document.root;
    if (path.empty()) return node;
    const std::optional<std::vector<PathPart>> parts = split_path(path);
    for (size_t i = 0; parts && node != nullptr && i < parts->size(); ++i) {
      const PathPart& part = (*parts)[i];
      if (part.index) node = node->is_array() ? node->as_array()->get(*part.index) : nullptr;
      else node = node->is_table() ? node->as_table()->get(part.key) : nullptr;
    }
    return parts ? node : nullptr;
  }

  [[noreturn]] void wrong(const std::string& expected) const {
    table.fail(key, "it must be " + expected, fmt::format("write {}", example_of(expected)));
  }

  static std::string example_of(const std::string& expected) {
    if (expected.find("list of strings") != std::string::npos) return "each in quotes, in brackets: [\"a\", \"b\"]";
    if (expected.find("list") != std::string::npos) return "the values in brackets, separated by commas";
    if (expected.find("whole number") != std::string::npos) return "a number without a point and without quotes";
    if (expected.find("number") != std::string::npos) return "a number without quotes";
    if (expected.find("true") != std::string::npos) return "true or false without quotes";
    if (expected.find("table") != std::string::npos) return fmt::format("its keys below a line [name]");
    return "it in quotes";
  }

  /// T is std::string, int64_t, double or bool.
  template <class T>
  T value(const char* expected) const {
    if constexpr (std::is_same_v<T, double>) {
      if (auto whole = node->value_exact<int64_t>()) return double(*whole);
    }
    if (auto exact = node->value_exact<T>()) return *exact;
    if constexpr (std::is_same_v<T, std::string>) {
      // --set name=50 means the string "50" where a string is expected
      auto given = table.document_->overridden.find(path);
      if (given != table.document_->overridden.end() && node->is_value())
        return given->second.substr(given->second.find('=') + 1);
    }
    wrong(expected);
  }

  /// A number with its unit, as text. A number without one is left to the parser, which knows the units.
  std::string quantity(const char* expected) const {
    return node->is_number() ? node_in_short(*node) : value<std::string>(expected);
  }

  template <class T>
  std::vector<T> list(const char* expected) const {
    const bool from_command_line = table.document_->overridden.contains(path);
    toml::array elements;
    if (const auto* array = node->as_array()) {
      elements = *array;
    } else if (auto words = node->value_exact<std::string>(); words && from_command_line) {
      for (const std::string& word : split_list(*words)) elements.push_back(*parse_override(word).get("value"));
    } else {
      elements.push_back(*node);  // a single value is accepted as a list of one
    }
    std::vector<T> values;
    for (const toml::node& element : elements) {
      if constexpr (std::is_same_v<T, double>) {
        if (auto whole = element.value_exact<int64_t>()) {
          values.push_back(double(*whole));
          continue;
        }
      }
      auto value = element.value_exact<T>();
      if (!value) wrong(expected);
      values.push_back(*value);
    }
    return values;
  }

  /// Returns the last part of the message about a missing key: it names a key of the file that no getter has read and
  /// whose name is similar, probably a misspelling. "" if there is no such key.
  std::string near_miss() const {
    const Document& document = *table.document_;
    const std::optional<std::vector<PathPart>> parts = split_path(path);
    const toml::node* at = &document.root;
    std::string parent;
    for (size_t i = 0; parts && i < parts->size(); ++i) {
      const PathPart& part = (*parts)[i];
      const toml::node* next = nullptr;
      if (part.index) next = at->is_array() ? at->as_array()->get(*part.index) : nullptr;
      else if (at->is_table()) next = at->as_table()->get(part.key);
      if (next == nullptr)
        return at->is_table() ? near_miss_in(*at->as_table(), parent, part.key, i + 1 < parts->size()) : "";
      at = next;
      parent = part.index ? fmt::format("{}[{}]", parent, *part.index) : path_in(parent, part.key);
    }
    return "";
  }

  /// `there`: the table, at the path `parent`, that should have the key `missing`. `is_table`: the key's value is a
  /// table.
  std::string near_miss_in(const toml::table& there, const std::string& parent, const std::string& missing,
                           bool is_table) const {
    const Document& document = *table.document_;
    std::vector<std::string> unread;
    for (const auto& [name, value] : there)
      if (value.is_table() == is_table && !document.known.contains(path_in(parent, name.str())))
        unread.emplace_back(name.str());
    const std::string near = closest_match(missing, unread);
    // a short name may be "near" although all its letters differ; then it is another name
    if (near.empty() || edit_distance(missing, near) >= int(missing.size())) return "";
    const ConfigTable top(table.document_, "");
    return fmt::format("{}: did you mean \"{}\"?", top.where(path_in(parent, near)), missing);
  }

  void require() const {
    if (node != nullptr) return;
    const bool takes_set = table.document_->takes_set && path.find('[') == path.npos;
    const std::string near = near_miss();
    fail_user({.where = table.document_->name,
               .what = fmt::format("key \"{}\" is missing", path),
               .why = "it has no default",
               .next = !near.empty() ? near
                       : takes_set   ? fmt::format("add it to the file or give --set {}=VALUE", path)
                                     : "add it to the file"});
  }

  const ConfigTable& table;
  std::string_view key;
  std::string path;
  const toml::node* node = nullptr;
};

namespace {

constexpr const char* kString = "a string";
constexpr const char* kInt = "a whole number";
constexpr const char* kDouble = "a number";
constexpr const char* kBool = "true or false";

/// For a key that takes a whole number: refuses a number like 1e30 or 32.0. Others are left to the reader.
void refuse_real(const ConfigTable& table, std::string_view key, double real, int64_t at_least) {
  constexpr double kBeyond = 0x1p63;
  if (std::isinf(real) || real >= kBeyond || real < -kBeyond)
    table.fail(key,
               fmt::format("it must be a whole number from {} to {}", at_least, std::numeric_limits<int64_t>::max()),
               real > 0 ? "choose a smaller value" : "choose a larger value");
  if (real == std::trunc(real)) table.fail(key, "it must be a whole number", fmt::format("write {}", int64_t(real)));
}

}  // namespace

ConfigTable::ConfigTable(std::shared_ptr<Document> document, std::string path)
    : document_(std::move(document)), path_(std::move(path)) {}

ConfigTable ConfigTable::from_file(const std::filesystem::path& path) {
  return from_string(read_file(path), path.string());
}

ConfigTable ConfigTable::from_string(std::string_view text, std::string name, bool has_lines) {
  auto document = std::make_shared<Document>();
  document->root = parse_toml(text, name, has_lines);
  document->name = std::move(name);
  document->has_lines = has_lines;
  return {std::move(document), ""};
}

void ConfigTable::override_with(std::string_view assignment, std::string_view flag) {
  const std::string origin = flag.empty() ? "--set " + std::string(assignment) : std::string(flag);
  const Assignment assigned = read_assignment(assignment, origin);
  const std::vector<PathPart>& parts = assigned.key;
  toml::table* table = &document_->root;
  std::string so_far;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    const std::string& name = parts[i].key;
    so_far = path_in(so_far, name);
    table->insert(name, toml::table{});
    toml::node* next = document_->expanded(so_far, *table, name);
    if (!next->is_table())
      fail_user({.where = origin,
                 .what = fmt::format("\"{}\" is {}", name, node_in_short(*next)),
                 .why = "it is a value, not a table with keys of its own",
                 .next = fmt::format("set \"{}\" itself", so_far)});
    table = next->as_table();
  }
  table->insert_or_assign(parts.back().key, *parse_override(assigned.value).get("value"));
  document_->overridden[path_of(parts)] = origin;
}

/// A table that has a key of just this name, also one with dots, means that key.
std::string ConfigTable::path_to(std::string_view key) const {
  if (key.empty()) return path_;
  const toml::node* own = Reader::find(*document_, path_);
  if (own != nullptr && own->is_table() && own->as_table()->contains(key)) return path_in(path_, key);
  const std::optional<std::vector<PathPart>> parts = split_path(key);
  if (!parts) return path_in(path_, key);
  const std::string path = path_of(*parts);
  return path_.empty() ? path : path_ + "." + path;
}

toml::node* ConfigTable::Document::expanded(const std::string& path, toml::table& parent, std::string_view name) {
  toml::node* node = parent.get(name);
  const auto form = short_forms.find(path);
  if (form == short_forms.end() || !node->is_string()) return node;
  toml::table full;
  full.insert(form->second, std::move(*node->as_string()));  // moving the string preserves its source line
  if (auto given = overridden.extract(path)) {
    given.key() = path_in(path, form->second);
    overridden.insert(std::move(given));
  }
  return &parent.insert_or_assign(name, std::move(full)).first->second;
}

void ConfigTable::allow_set() { document_->takes_set = true; }

void ConfigTable::allow_short_form(std::string key, std::string name) {
  document_->short_forms[path_to(key)] = std::move(name);
}

bool ConfigTable::has(std::string_view key) const { return Reader(*this, key).node != nullptr; }

std::string ConfigTable::get_string(std::string_view key, std::string fallback) const {
  Reader reader(*this, key);
  return reader.node == nullptr ? std::move(fallback) : reader.value<std::string>(kString);
}

std::string ConfigTable::require_string(std::string_view key) const {
  Reader reader(*this, key);
  reader.require();
  return reader.value<std::string>(kString);
}

std::string ConfigTable::get_choice(std::string_view key, std::string fallback,
                                    const std::vector<std::string>& choices) const {
  std::string value = get_string(key, std::move(fallback));
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) return value;
  const std::string near = closest_match(value, choices);
  fail(key, "it must be one of " + join(choices),
       near.empty() ? "choose one of them" : fmt::format("did you mean \"{}\"?", near));
}

int64_t ConfigTable::get_int(std::string_view key, int64_t fallback, int64_t at_least) const {
  return Reader(*this, key).node == nullptr ? fallback : require_int(key, at_least);
}

int64_t ConfigTable::require_int(std::string_view key, int64_t at_least) const {
  Reader reader(*this, key);
  reader.require();
  if (const std::optional<double> real = reader.node->value_exact<double>()) refuse_real(*this, key, *real, at_least);
  auto value = reader.value<int64_t>(kInt);
  if (value < at_least) fail(key, fmt::format("it must be at least {}", at_least), "choose a larger value");
  return value;
}

double ConfigTable::get_double(std::string_view key, double fallback, double at_least) const {
  return Reader(*this, key).node == nullptr ? fallback : require_double(key, at_least);
}

double ConfigTable::require_double(std::string_view key, double at_least) const {
  Reader reader(*this, key);
  reader.require();
  auto value = reader.value<double>(kDouble);
  if (std::isnan(value)) fail(key, "it must be a number", "write one, for example 0.1");
  if (std::isinf(value)) fail(key, "it must be finite", "choose a smaller value");
  if (!(value >= at_least)) fail(key, fmt::format("it must be at least {}", at_least), "choose a larger value");
  return value;
}

bool ConfigTable::get_bool(std::string_view key, bool fallback) const {
  return Reader(*this, key).node == nullptr ? fallback : require_bool(key);
}

bool ConfigTable::require_bool(std::string_view key) const {
  Reader reader(*this, key);
  reader.require();
  return reader.value<bool>(kBool);
}

std::vector<int64_t> ConfigTable::get_ints(std::string_view key, std::vector<int64_t> fallback) const {
  Reader reader(*this, key);
  return reader.node == nullptr ? std::move(fallback) : reader.list<int64_t>("a list of whole numbers");
}

std::vector<double> ConfigTable::get_doubles(std::string_view key, std::vector<double> fallback) const {
  Reader reader(*this, key);
  return reader.node == nullptr ? std::move(fallback) : reader.list<double>("a list of numbers");
}

std::vector<std::string> ConfigTable::get_strings(std::string_view key, std::vector<std::string> fallback) const {
  Reader reader(*this, key);
  return reader.node == nullptr ? std::move(fallback) : reader.list<std::string>("a list of strings");
}

int64_t ConfigTable::get_bytes(std::string_view key, int64_t fallback) const {
  Reader reader(*this, key);
  return reader.node == nullptr ? fallback : parse_bytes(reader.quantity("a string like \"2 GiB\""), where(key));
}

double ConfigTable::get_bandwidth(std::string_view key, double fallback) const {
  Reader reader(*this, key);
  if (reader.node == nullptr) return fallback;
  return parse_bandwidth(reader.quantity("a string like \"25 Gbit/s\""), where(key));
}

double ConfigTable::get_flops(std::string_view key, double fallback) const {
  Reader reader(*this, key);
  return reader.node == nullptr ? fallback : parse_flops(reader.quantity("a string like \"2 GFLOP\""), where(key));
}

double ConfigTable::get_flop_rate(std::string_view key, double fallback) const {
  Reader reader(*this, key);
  return reader.node == nullptr ? fallback
                                : parse_flop_rate(reader.quantity("a string like \"15.7 TFLOP/s\""), where(key));
}

double ConfigTable::get_seconds(std::string_view key, double fallback) const {
  Reader reader(*this, key);
  return reader.node == nullptr ? fallback : parse_seconds(reader.quantity("a string like \"5 min\""), where(key));
}

Length ConfigTable::get_length(std::string_view key, Length fallback) const {
  return Reader(*this, key).node == nullptr ? fallback : require_length(key);
}

Length ConfigTable::require_length(std::string_view key) const {
  Reader reader(*this, key);
  reader.require();
  return parse_length(reader.quantity("a string like \"10 epochs\""), where(key));
}

ConfigTable ConfigTable::table(std::string_view key) const {
  Reader reader(*this, key);
  if (reader.node != nullptr && !reader.node->is_table()) reader.wrong("a table");
  return {document_, reader.path};
}

std::vector<ConfigTable> ConfigTable::tables(std::string_view key) const {
  Reader reader(*this, key);
  std::vector<ConfigTable> elements;
  if (reader.node == nullptr) return elements;
  if (!holds_tables(*reader.node)) reader.wrong("a list of tables, each below a line [[name]]");
  for (size_t i = 0; i < reader.node->as_array()->size(); ++i)
    elements.push_back({document_, fmt::format("{}[{}]", reader.path, i)});
  return elements;
}

std::vector<std::string> ConfigTable::keys() const {
  std::vector<std::string> names;
  const toml::node* node = Reader::find(*document_, path_);
  if (node != nullptr)
    for (const auto& [name, value] : *node->as_table()) names.emplace_back(name.str());
  return names;
}

std::string ConfigTable::where(std::string_view key) const {
  const std::string path = path_to(key);
  if (auto given = document_->overridden.find(path); given != document_->overridden.end()) return given->second;
  const toml::node* node = Reader::find(*document_, path);
  if (node != nullptr && !node->source().begin) {  // a table that --set made: the first of its keys
    const auto key = document_->overridden.lower_bound(path + ".");
    if (key != document_->overridden.end() && key->first.starts_with(path + ".")) return key->second;
  }
  if (node == nullptr || !node->source().begin || !document_->has_lines)
    return fmt::format("{}: {}", document_->name, path);
  return fmt::format("{}:{}: {}", document_->name, node->source().begin.line, path);
}

void ConfigTable::fail(std::string_view key, std::string why, std::string next) const {
  const toml::node* node = Reader::find(*document_, path_to(key));
  // a key that is misspelt is missing too
  if (const std::string near = node == nullptr ? Reader(*this, key).near_miss() : ""; !near.empty()) next = near;
  fail_user({.where = where(key),
             .what = node == nullptr ? "" : node_in_short(*node),
             .why = std::move(why),
             .next = std::move(next)});
}

void ConfigTable::finish() const {
  std::vector<TomlLeaf> leaves, unknown;
  collect_toml_leaves(document_->root, "", "", leaves);
  for (TomlLeaf& leaf : leaves)
    if (!document_->known.contains(leaf.path)) unknown.push_back(std::move(leaf));
  if (unknown.empty()) return;

  const ConfigTable top(document_, "");
  std::string others;
  for (size_t i = 1; i < unknown.size(); ++i) others += (i == 1 ? " (also unknown: " : ", ") + unknown[i].path;
  if (!others.empty()) others += ")";
  const std::string& path = unknown.front().path;
  auto candidates = document_->known;
  if (path.find('[') == path.npos)  // keys of a list's tables are not keys of the file
    std::erase_if(candidates, [](const std::string& known) { return known.find('[') != known.npos; });
  fail_user({.where = top.where(path),
             .what = "unknown key" + others,
             .why = "nothing reads it",
             .next = advice_on_unknown_key(path, candidates, !document_->overridden.contains(path))});
}

nlohmann::json ConfigTable::to_json() const {
  const toml::node* node = Reader::find(*document_, path_);
  return node == nullptr ? nlohmann::json::object() : json_of_node(*node);
}

}  // namespace trireme
