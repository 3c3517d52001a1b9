#include "plan/fewer_devices.h"

#include <fmt/format.h>

#include <sstream>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "plan/strategy.h"

namespace trireme {
namespace {

constexpr std::string_view kData = "data=";

/// Returns the strategy with its data degree replaced.
std::string with_data_degree(const std::string& strategy, int degree) {
  std::vector<std::string> items;
  std::istringstream text(strategy);
  for (std::string item; std::getline(text, item, ',');)
    items.push_back(item.starts_with(kData) ? fmt::format("{}{}", kData, degree) : item);
  return join(items, ",");
}

}  // namespace

std::optional<FewerDevices> on_fewer_devices(const std::string& strategy, int devices) {
  const Strategy parsed = parse_strategy(strategy, "--plan");
  const std::optional<int> all = parsed.devices();
  if (all && *all <= devices) return FewerDevices{strategy, *all};
  if (!parsed.speeds.empty()) return std::nullopt;
  if (!all) return FewerDevices{strategy, devices};
  const int data = parsed.data.value_or(1), others = *all / data;
  if (others > devices) return std::nullopt;
  return FewerDevices{with_data_degree(strategy, devices / others), devices / others * others};
}

}  // namespace trireme
