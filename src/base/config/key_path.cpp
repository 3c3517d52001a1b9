#include "base/config/key_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/text_parts.h"

namespace trireme {
namespace {

bool is_bare(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/// Takes the name in quotes at the beginning of `text`. nullopt: the quotes do not end.
std::optional<std::string> take_quoted(std::string_view& text) {
  const char quote = text.front();
  std::string name;
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] == quote) {
      text.remove_prefix(i + 1);
      return name;
    }
    if (quote == '"' && text[i] == '\\' && i + 1 < text.size()) ++i;
    name += text[i];
  }
  return std::nullopt;
}

/// Takes the number in brackets at the beginning of `text`. nullopt: there is none.
std::optional<size_t> take_index(std::string_view& text) {
  const size_t end = text.find(']');
  if (end == text.npos) return std::nullopt;
  const std::optional<int64_t> index = number_in<int64_t>(text.substr(1, end - 1));
  if (!index || *index < 0) return std::nullopt;
  text.remove_prefix(end + 1);
  return size_t(*index);
}

}  // namespace

std::string written_key(std::string_view name) {
  if (!name.empty() && std::all_of(name.begin(), name.end(), is_bare)) return std::string(name);
  std::string quoted = "\"";
  for (const char c : name) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

std::string path_in(const std::string& table, std::string_view name) {
  return table.empty() ? written_key(name) : table + "." + written_key(name);
}

std::optional<std::vector<PathPart>> split_path(std::string_view path) {
  std::vector<PathPart> parts;
  while (true) {
    if (path.empty()) return std::nullopt;
    std::string key;
    if (path.front() == '"' || path.front() == '\'') {
      std::optional<std::string> quoted = take_quoted(path);
      if (!quoted) return std::nullopt;
      key = std::move(*quoted);
    } else {
      const size_t end = std::min(path.find_first_of(".["), path.size());
      if (end == 0) return std::nullopt;
      key = path.substr(0, end);
      path.remove_prefix(end);
    }
    parts.push_back({.key = std::move(key)});
    while (!path.empty() && path.front() == '[') {
      const std::optional<size_t> index = take_index(path);
      if (!index) return std::nullopt;
      parts.push_back({.index = index});
    }
    if (path.empty()) return parts;
    if (path.front() != '.') return std::nullopt;
    path.remove_prefix(1);
  }
}

std::string path_of(const std::vector<PathPart>& parts) {
  std::string path;
  for (const PathPart& part : parts)
    path = part.index ? fmt::format("{}[{}]", path, *part.index) : path_in(path, part.key);
  return path;
}

}  // namespace trireme
