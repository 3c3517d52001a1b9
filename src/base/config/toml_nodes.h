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

/// Parses a document. `name`: for messages. `has_lines`: they state the line. Errors (user): it is not TOML.
toml::table parse_toml(std::string_view text, const std::string& name, bool has_lines = true);

/// Parses the value of an override as TOML: the key "value" of the table that is returned. A value that is not TOML is
/// taken as a string.
toml::table parse_override(std::string_view value);

nlohmann::json json_of_node(const toml::node& node);

/// True for a list of tables that is not empty.
bool holds_tables(const toml::node& node);

struct TomlLeaf {
  std::string path;
  std::string key;  ///< its last name
};

/// Adds the values below `node`, which is at `path` and has the name `key`.
void collect_toml_leaves(const toml::node& node, const std::string& path, const std::string& key,
                         std::vector<TomlLeaf>& leaves);

}  // namespace trireme
