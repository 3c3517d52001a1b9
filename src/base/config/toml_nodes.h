// Nodes of a TOML document: as texts, as JSON, as a list of leaves.
#pragma once

#include <toml++/toml.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// Returns the node in one line of at most 60 characters, for messages.
std::string node_in_short(const toml::node& node);

/// Parses a document. `name`: its name in messages. `has_lines`: messages state the line. Errors (user): the text is
/// not TOML.
toml::table parse_toml(std::string_view text, const std::string& name, bool has_lines = true);

/// Parses the value of an override as TOML. Returns a table that holds it under the key "value". A value that is not
/// TOML is taken as a string.
toml::table parse_override(std::string_view value);

nlohmann::json json_of_node(const toml::node& node);

/// True for a list of tables that is not empty.
bool holds_tables(const toml::node& node);

struct TomlLeaf {
  std::string path;
  std::string key;  ///< the last part of `path`
};

/// Adds the values below `node`, which is at `path` and has the name `key`.
void collect_toml_leaves(const toml::node& node, const std::string& path, const std::string& key,
                         std::vector<TomlLeaf>& leaves);

}  // namespace trireme
