// The constants of a cluster file that measurements of steps can correct, and the file's text with other values of
// them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "plan/toml_text.h"
#include "trireme/cluster.h"
#include "trireme/config.h"

namespace trireme {

/// One number of a cluster file. Values are in bytes/s, seconds or FLOPs, or without a unit.
struct ClusterConstant {
  std::string key;  ///< its path in the file: "device.V100.launch", "node[0].link.bandwidth"
  double value = 0;
  /// What a fit may give: shares at most 1, slowdowns at least 1, bandwidths at most a quarter above the file's,
  /// because a file has the speed of a datasheet or of a benchmark, which reaches most of it.
  double least = 0, most = 0;
  bool is_in_file = true;  ///< false: the file leaves it out, and the value is the usual one
};

/// A cluster file that is read again with other constants.
class ClusterText {
 public:
  /// Errors (user): as read_cluster.
  explicit ClusterText(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  /// In the order of the file's keys in docs/clusters.md: of each kind of device, of each link, of overlap. A constant
  /// of 0 is left out: a file gives it for what takes no time.
  const std::vector<ClusterConstant>& constants() const { return constants_; }

  /// Returns the cluster with these values, one per constant.
  Cluster with(const std::vector<double>& values) const;

  /// Returns the value as the file would give it, with four significant digits and the unit of the file: "\"8.12 us\"".
  std::string written(size_t constant, double value) const;
  /// Returns that text's value.
  double rounded(size_t constant, double value) const;

  /// Writes the value into the text, with a comment above it that says what it was and `origin`.
  void set(size_t constant, double value, const std::string& origin);
  /// Changes the path of the price table so that it is found from another file's folder.
  void move_to(const std::filesystem::path& file);
  /// The text with the values that were set.
  const std::string& text() const { return text_.text(); }

 private:
  void add(const std::string& key, double least, double most, double usual = 0);
  void add_devices(const ConfigTable& file);
  void add_links(const ConfigTable& file);
  void add_overlap(const ConfigTable& file);
  std::string with_digits(size_t constant, double value, int digits) const;
  static void write(const ClusterConstant& constant, const std::string& value, TomlText& text);

  std::filesystem::path path_;
  TomlText text_;
  std::vector<ClusterConstant> constants_;
};

}  // namespace trireme
