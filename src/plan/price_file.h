// What renting machines costs: a table that users edit.
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
  std::string devices;  ///< for people: "8 x V100 16 GB"
  double per_hour = 0;
  std::string currency;
  std::string date;  ///< ISO 8601, of the day or the month; the table's where the row has none
  std::string source;
};

/// Reads examples/clusters/prices.toml or a file like it. Errors: user errors with file, line and key; names are
/// unique.
std::vector<InstancePrice> read_prices(const std::filesystem::path& path);

/// Whether the text is a date, "2023-06-30", or a month, "2023-06".
bool is_iso_date(const std::string& text);

}  // namespace trireme
