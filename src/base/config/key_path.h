// Paths of keys in a TOML document as one text: data.columns."price [EUR]", node[0].device. Names that TOML does not
// allow without quotes have quotes, so that every path has one form.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct PathPart {
  std::string key = {};
  std::optional<size_t> index = {};  ///< position in a list; `key` is then empty
};

/// Returns the name as it is written in a path: bare, or in quotes.
std::string written_key(std::string_view name);

/// Returns the path of the key with this name in a table. `table`: its path; empty: the document.
std::string path_in(const std::string& table, std::string_view name);

/// Returns the parts of a path, which may be in "..." or '...'; nullopt if the text is not a path.
std::optional<std::vector<PathPart>> split_path(std::string_view path);

/// Returns the path of these parts.
std::string path_of(const std::vector<PathPart>& parts);

}  // namespace trireme
