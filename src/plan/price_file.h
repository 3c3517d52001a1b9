// Prices of rented machines: a table that users edit.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace trireme {

/// A machine that can be rented by the hour.
struct InstancePrice {
  std::string name;      ///< "p3.16xlarge"
  std::string provider;  ///< "AWS"
  std::string region;
  std::string devices;  ///< for display: "8 x V100 16 GB"
  double per_hour = 0;
  std::string currency;
  /// ISO 8601, a day or a month; the table's date if the row has none.
  std::string date;
  std::string source;
};

/// Reads examples/clusters/prices.toml or a file like it. Instance names must be unique. Errors (user): with file, line
/// and key.
std::vector<InstancePrice> read_prices(const std::filesystem::path& path);

/// True if the text is a date, "2023-06-30", or a month, "2023-06".
bool is_iso_date(const std::string& text);

}  // namespace trireme
