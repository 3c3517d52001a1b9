// A TOML text in which single values can be replaced. Everything else stays as its author wrote it, comments included.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

/// Paths are dotted, "device.V100.launch"; the elements of [[node]] are "node[0]", "node[1]".
/// Errors (user) of all members: the text is not TOML any more.
class TomlText {
 public:
  /// `name`: the file, for messages.
  TomlText(std::string text, std::string name);

  const std::string& text() const { return text_; }

  /// Returns the value as it is written ("\"8 us\"", "0.8"); nullopt if there is none.
  std::optional<std::string> written(std::string_view path) const;
  /// Replaces a value that exists. `value`: as it is written in TOML.
  void replace(std::string_view path, std::string_view value);
  /// Adds a line `key = value` below the line of an existing value, for a key of the same table. Errors (user): that
  /// value's table is written in one line.
  void add_below(std::string_view path, std::string_view key, std::string_view value);
  /// True if add_below would succeed.
  bool has_room_below(std::string_view path, std::string_view key) const;
  /// Puts the comment line "# BEGIN REST" above the line of a value. It replaces a comment there that begins with "#
  /// BEGIN ".
  void comment(std::string_view path, std::string_view begin, std::string_view rest);

 private:
  /// The bytes [begin, end) of a value.
  struct Place {
    size_t begin = 0, end = 0;
  };
  std::optional<Place> find(std::string_view path) const;
  Place require(std::string_view path) const;
  size_t line_begin(size_t at) const;

  std::string text_;
  std::string name_;
};

/// Returns the text as a TOML string in quotes.
std::string toml_string(std::string_view text);

}  // namespace trireme
