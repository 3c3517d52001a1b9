// The constants of a cluster file that can be fitted to measured steps, and the text of the file with new values of
// these constants.
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
  /// Bounds for a fit. Shares are at most 1, slowdowns at least 1. Bandwidths are at most a quarter above the file's
  /// value, because that value comes from a datasheet or from a benchmark, which reaches most of the datasheet's.
  double least = 0, most = 0;
  bool is_in_file = true;  ///< false: the file leaves it out, and the value is the usual one
};

/// The text of a cluster file, which can be read again with other constants.
class ClusterText {
 public:
  /// Errors (user): as read_cluster.
  explicit ClusterText(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  /// In the order of the file's keys in docs/clusters.md: of each kind of device, of each link, of overlap. A constant
  /// of 0 is left out: in a cluster file it means that the operation takes no time.
  const std::vector<ClusterConstant>& constants() const { return constants_; }

  /// Returns the cluster with these values, one per constant.
  Cluster with(const std::vector<double>& values) const;

  /// Returns the value in the file's notation: with the unit that the file uses, rounded to four significant digits,
  /// "\"8.12 us\"".
  std::string written(size_t constant, double value) const;
  /// Returns the value rounded as in written().
  double rounded(size_t constant, double value) const;

  /// Writes the value into the text. Adds a comment above it with `origin` and the value that it replaces.
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
