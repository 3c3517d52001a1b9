#include "plan/toml_text.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <utility>

#include "trireme/error.h"

namespace trireme {
namespace {

/// The offset of a position in a text. Columns of toml++ count code points from 1.
size_t offset_of(std::string_view text, const toml::source_position& position) {
  size_t at = 0;
  for (toml::source_index line = 1; line < position.line; ++line) at = text.find('\n', at) + 1;
  const auto continues = [&](size_t i) { return i < text.size() && (static_cast<unsigned char>(text[i]) >> 6) == 2; };
  for (toml::source_index column = 1; column < position.column; ++column) {
    ++at;
    while (continues(at)) ++at;
  }
  return at;
}

}  // namespace

TomlText::TomlText(std::string text, std::string name) : text_(std::move(text)), name_(std::move(name)) {}

std::optional<TomlText::Place> TomlText::find(std::string_view path) const {
  try {
    const toml::table root = toml::parse(text_, std::string_view(name_));
    const toml::node* node = root.at_path(path).node();
    if (node == nullptr) return std::nullopt;
    Place place{offset_of(text_, node->source().begin), offset_of(text_, node->source().end)};
    // Blanks behind a number belong to its region.
    while (place.end > place.begin && (text_[place.end - 1] == ' ' || text_[place.end - 1] == '\t')) --place.end;
    return place;
  } catch (const toml::parse_error& error) {
    fail_user({fmt::format("{}:{}", name_, error.source().begin.line), "is not valid TOML",
               std::string(error.description()), "correct the file"});
  }
}

TomlText::Place TomlText::require(std::string_view path) const {
  const std::optional<Place> place = find(path);
  check_internal(place.has_value(), "a value of a TOML text that is edited exists");
  return *place;
}

size_t TomlText::line_begin(size_t at) const {
  const size_t end = at == 0 ? std::string::npos : text_.rfind('\n', at - 1);
  return end == std::string::npos ? 0 : end + 1;
}

std::optional<std::string> TomlText::written(std::string_view path) const {
  const std::optional<Place> place = find(path);
  if (!place) return std::nullopt;
  return text_.substr(place->begin, place->end - place->begin);
}

void TomlText::replace(std::string_view path, std::string_view value) {
  const Place place = require(path);
  text_.replace(place.begin, place.end - place.begin, value);
}

void TomlText::add_below(std::string_view path, std::string_view key, std::string_view value) {
  const size_t end = text_.find('\n', require(path).end);
  const std::string before = text_;
  const std::string line = fmt::format("{} = {}\n", key, value);
  if (end == std::string::npos) text_ += "\n" + line;
  else text_.insert(end + 1, line);
  const std::string whole = fmt::format("{}.{}", path.substr(0, path.rfind('.')), key);
  bool added = false;
  try {
    added = written(whole) == value;
  } catch (const Error&) {  // the new line is at a place where TOML allows no key
  }
  if (added) return;
  text_ = before;
  fail_user({name_, fmt::format("{} = {}", whole, value), "cannot be added, because its table is written in one line",
             "write the key into the file, with any value, and try again"});
}

void TomlText::comment(std::string_view path, std::string_view begin, std::string_view rest) {
  const size_t line = line_begin(require(path).begin);
  const std::string mark = fmt::format("# {} ", begin);
  for (size_t at = line; at > 0;) {
    const size_t above = line_begin(at - 1);
    const size_t first = text_.find_first_not_of(" \t", above);
    if (first >= at || text_[first] != '#') break;
    if (text_.compare(first, mark.size(), mark) == 0) {
      text_.erase(above, at - above);
      break;
    }
    at = above;
  }
  const size_t now = line_begin(require(path).begin);
  const std::string indent = text_.substr(now, text_.find_first_not_of(" \t", now) - now);
  text_.insert(now, fmt::format("{}{}{}\n", indent, mark, rest));
}

bool TomlText::has_room_below(std::string_view path, std::string_view key) const {
  TomlText copy = *this;
  try {
    copy.add_below(path, key, "1");
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::string toml_string(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace trireme
