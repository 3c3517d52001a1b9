// Experiment files in TOML. Getters check types and units. finish() then reports every key that no getter has read, so
// that a misspelt key is an error and not a silent default.
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

namespace trireme {

/// The length of training: a number of optimizer steps or of epochs (passes over the training set).
struct Length {
  enum class Unit { steps, epochs };
  double count = 0;
  Unit unit = Unit::epochs;
};

/// A table of a document, or a table inside it. Copies and sub-tables share the document and its record of keys read.
/// Keys may be dotted ("optimizer.rate"). If the table itself has a key with exactly that name, dots included, that key
/// is meant. Not thread-safe.
class ConfigTable {
 public:
  static ConfigTable from_file(const std::filesystem::path& path);
  /// `name` replaces the file's path in messages. `has_lines`: messages state the line, "name:12: key"; otherwise
  /// "name: key", for a text that the user did not write as lines.
  static ConfigTable from_string(std::string_view text, std::string name = "<string>", bool has_lines = true);

  /// Applies "a.b=value", as given to --set. The value is parsed as TOML (3, true, [1, 2], "x"). A value that is not
  /// TOML is a string, so `precision=bf16` and `device_memory=2 GiB` need no quotes, and a list may be written
  /// `devices=1,2`. Keys start from the top of the document. A key that does not exist is added; finish() reports it if
  /// no getter reads it. Names with dots or blanks have quotes: `data.columns."a b"="numeric"`. `flag`: what messages
  /// name instead, if the user did not write --set: "--device cuda".
  void override_with(std::string_view assignment, std::string_view flag = "");

  /// Messages about missing keys advise --set from now on. For documents that a command line can override.
  void allow_set();

  /// Allows a string under `key` as the short form of a table with that string under `name`. Later assignments may add
  /// keys to that table. Example: `model = "lenet"` for `[model]` with `name = "lenet"`.
  void allow_short_form(std::string key, std::string name);

  bool has(std::string_view key) const;

  std::string get_string(std::string_view key, std::string fallback) const;
  std::string require_string(std::string_view key) const;
  /// Returns one of `choices`. The error lists them and the nearest one.
  std::string get_choice(std::string_view key, std::string fallback, const std::vector<std::string>& choices) const;
  int64_t get_int(std::string_view key, int64_t fallback, int64_t at_least = std::numeric_limits<int64_t>::min()) const;
  int64_t require_int(std::string_view key, int64_t at_least = std::numeric_limits<int64_t>::min()) const;
  /// Whole numbers are accepted too.
  double get_double(std::string_view key, double fallback,
                    double at_least = std::numeric_limits<double>::lowest()) const;
  double require_double(std::string_view key, double at_least = std::numeric_limits<double>::lowest()) const;
  bool get_bool(std::string_view key, bool fallback) const;
  bool require_bool(std::string_view key) const;
  /// A single value is accepted as a list of one.
  std::vector<int64_t> get_ints(std::string_view key, std::vector<int64_t> fallback) const;
  std::vector<double> get_doubles(std::string_view key, std::vector<double> fallback) const;
  std::vector<std::string> get_strings(std::string_view key, std::vector<std::string> fallback) const;

  /// Strings of a number and a unit, returned in bytes, bytes/s, FLOPs, FLOP/s and seconds. Units:
  /// - bytes: B, kB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (powers of 1024): "2 GiB";
  /// - bandwidth: bit/s, kbit/s to Tbit/s (powers of 1000), B/s to TiB/s: "25 Gbit/s";
  /// - work: FLOP, kFLOP to PFLOP (powers of 1000); a rate: the same with "/s": "15.7 TFLOP/s";
  /// - time: ns, us, ms, s, min, h: "0.5 ms";
  /// - length: steps, epochs: "10 epochs".
  int64_t get_bytes(std::string_view key, int64_t fallback) const;
  double get_bandwidth(std::string_view key, double fallback) const;
  double get_flops(std::string_view key, double fallback) const;
  double get_flop_rate(std::string_view key, double fallback) const;
  double get_seconds(std::string_view key, double fallback) const;
  Length get_length(std::string_view key, Length fallback) const;
  Length require_length(std::string_view key) const;

  /// Returns the table under `key`, or an empty table if the key is absent.
  ConfigTable table(std::string_view key) const;
  /// Returns the elements of [[key]], or none if the key is absent.
  std::vector<ConfigTable> tables(std::string_view key) const;
  /// Returns the keys of this table, sorted by name. Does not mark any key as read.
  std::vector<std::string> keys() const;

  /// Returns "mnist.toml:12: model.name", or "--set model.name=x" if the value was set there. For messages.
  std::string where(std::string_view key) const;
  /// Throws a user error about `key`, with its value if it has one. For rules of the caller.
  [[noreturn]] void fail(std::string_view key, std::string why, std::string next) const;

  /// Throws if the document (not only this table) has keys that no getter has read. Call it after all keys have been
  /// read.
  void finish() const;

  /// Returns the values of the document or sub-table, with overrides applied. Does not mark any key as read.
  nlohmann::json to_json() const;

 private:
  struct Document;
  struct Reader;
  ConfigTable(std::shared_ptr<Document> document, std::string path);
  std::string path_to(std::string_view key) const;  ///< from the top

  std::shared_ptr<Document> document_;
  std::string path_;  ///< of this table from the top, with quotes where TOML needs them; "": the top
};

}  // namespace trireme
