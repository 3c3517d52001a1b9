#include "plan/price_file.h"

#include <algorithm>
#include <cctype>
#include <chrono>

#include "trireme/config.h"

namespace trireme {
namespace {

constexpr const char* kDateExample = "write it like \"2023-06-30\" or \"2023-06\"";

std::string require_date(const ConfigTable& table) {
  const std::string date = table.require_string("date");
  if (!is_iso_date(date)) table.fail("date", "a price needs a date", kDateExample);
  return date;
}

}  // namespace

bool is_iso_date(const std::string& text) {
  constexpr std::string_view kForm = "dddd-dd-dd";
  constexpr size_t kMonth = 7;
  if (text.size() != kForm.size() && text.size() != kMonth) return false;
  for (size_t i = 0; i < text.size(); ++i)
    if (kForm[i] == 'd' ? std::isdigit(static_cast<unsigned char>(text[i])) == 0 : text[i] != kForm[i]) return false;
  const unsigned month = unsigned(std::stoi(text.substr(5, 2))),
                 day = text.size() > kMonth ? unsigned(std::stoi(text.substr(8, 2))) : 1;
  return (std::chrono::year(std::stoi(text.substr(0, 4))) / std::chrono::month(month) / std::chrono::day(day)).ok();
}

std::vector<InstancePrice> read_prices(const std::filesystem::path& path) {
  const ConfigTable file = ConfigTable::from_file(path);
  const std::string currency = file.require_string("currency"), date = require_date(file);
  std::vector<InstancePrice> prices;
  for (const ConfigTable& row : file.tables("instance")) {
    InstancePrice price{.name = row.require_string("name"),
                        .provider = row.get_string("provider", ""),
                        .region = row.get_string("region", ""),
                        .devices = row.get_string("devices", ""),
                        .per_hour = row.require_double("per_hour", 0),
                        .currency = currency,
                        .date = row.has("date") ? require_date(row) : date,
                        .source = row.require_string("source")};
    if (price.per_hour == 0)
      row.fail("per_hour", "a price must be more than zero", "give the price of an hour, or remove the row");
    const bool is_known =
        std::any_of(prices.begin(), prices.end(), [&](const InstancePrice& p) { return p.name == price.name; });
    if (is_known) row.fail("name", "the table has this instance already", "keep one of the two rows");
    prices.push_back(std::move(price));
  }
  file.finish();
  return prices;
}

}  // namespace trireme
