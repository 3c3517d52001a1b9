// Experiment files: a TOML table whose every key is read on purpose. Getters check types and units; finish() then
// reports keys that nobody read, so a misspelt key is an error and not a silent default.
// Every error is a user error: file:line, key, value, reason, next step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "trireme/units.h"

namespace trireme {

/// A table of a document, or a table inside it. Copies and sub-tables share the document and its record of keys read.
/// Keys may be dotted ("optimizer.rate"). Not thread-safe.
class ConfigTable {
 public:
  static ConfigTable from_file(const std::filesystem::path& path);
  /// `name` stands for the file in messages.
  static ConfigTable from_string(std::string_view text, std::string name = "<string>");

  /// "a.b=value", as given to --set. The value is TOML (3, true, [1, 2], "x"); what is not TOML is taken as a string,
  /// so `precision=bf16` and `device_memory=2 GiB` need no quotes, and lists may be written `devices=1,2`. Keys count
  /// from the top of the document. A key that did not exist is added; finish() tells whether anyone knows it.
  void override_with(std::string_view assignment);

  /// A string under `key` is short for a table that has it under `name`: assignments may then add keys to that table.
  void allow_short_form(std::string key, std::string name);

  bool has(std::string_view key) const;

  std::string get_string(std::string_view key, std::string fallback) const;
  std::string require_string(std::string_view key) const;
  /// One of `choices`; the error lists them and the nearest.
  std::string get_choice(std::string_view key, std::string fallback, const std::vector<std::string>& choices) const;
  int64_t get_int(std::string_view key, int64_t fallback, int64_t at_least = std::numeric_limits<int64_t>::min()) const;
  int64_t require_int(std::string_view key, int64_t at_least = std::numeric_limits<int64_t>::min()) const;
  /// Whole numbers are taken too.
  double get_double(std::string_view key, double fallback,
                    double at_least = std::numeric_limits<double>::lowest()) const;
  double require_double(std::string_view key, double at_least = std::numeric_limits<double>::lowest()) const;
  bool get_bool(std::string_view key, bool fallback) const;
  bool require_bool(std::string_view key) const;
  /// A single value stands for a list of it.
  std::vector<int64_t> get_ints(std::string_view key, std::vector<int64_t> fallback) const;
  std::vector<double> get_doubles(std::string_view key, std::vector<double> fallback) const;
  std::vector<std::string> get_strings(std::string_view key, std::vector<std::string> fallback) const;

  /// Strings with units, see trireme/units.h.
  int64_t get_bytes(std::string_view key, int64_t fallback) const;
  double get_bandwidth(std::string_view key, double fallback) const;
  double get_flops(std::string_view key, double fallback) const;
  double get_flop_rate(std::string_view key, double fallback) const;
  double get_seconds(std::string_view key, double fallback) const;
  Length get_length(std::string_view key, Length fallback) const;
  Length require_length(std::string_view key) const;

  /// The table under `key`; an empty one where the key is absent.
  ConfigTable table(std::string_view key) const;
  /// The elements of [[key]]; none where absent.
  std::vector<ConfigTable> tables(std::string_view key) const;
  /// Keys of this table, in the order of the file's own sorting (by name). Reading the list marks nothing as read.
  std::vector<std::string> keys() const;

  /// "mnist.toml:12: model.name", or "--set model.name=x" where the value came from there; for messages.
  std::string where(std::string_view key) const;
  /// Throws a user error about `key` with its value: for rules that only the caller knows.
  [[noreturn]] void fail(std::string_view key, std::string why, std::string next) const;

  /// Throws if the document (not only this table) has keys that no getter asked for. Call it when all have been read.
  void finish() const;

  /// The document's or sub-table's values with overrides applied. Marks nothing as read.
  nlohmann::json to_json() const;

 private:
  struct Document;
  struct Reader;
  ConfigTable(std::shared_ptr<Document> document, std::string path);

  std::shared_ptr<Document> document_;
  std::string path_;  ///< dotted path of this table from the top, "" for the top; elements of [[a]] are "a[0]"
};

}  // namespace trireme
