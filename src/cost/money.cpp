#include "cost/money.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/seconds.h"

namespace trireme {

std::optional<Money> price_per_hour(const Cluster& cluster) {
  if (cluster.nodes.empty()) return std::nullopt;
  Money sum{0, cluster.price.currency};
  for (const ClusterNode& node : cluster.nodes) {
    if (!(node.price_per_hour > 0)) return std::nullopt;
    sum.amount += node.price_per_hour;
  }
  return sum;
}

std::optional<Money> price_of(const Cluster& cluster, double seconds) {
  std::optional<Money> price = price_per_hour(cluster);
  if (price) price->amount *= seconds / kSecondsPerHour;
  return price;
}

std::optional<Money> price_per_epoch(const Cluster& cluster, double seconds_per_step, double steps_per_epoch) {
  return price_of(cluster, seconds_per_step * steps_per_epoch);
}

std::string format_money(const std::optional<Money>& money) {
  if (!money || !std::isfinite(money->amount)) return "-";
  const double amount = money->amount;
  if (amount == 0) return fmt::format("0 {}", money->currency);
  constexpr int kDigits = 3;
  // Rounds first: 9.999 becomes 10.0, which has one more digit before the point.
  const int exponent = int(std::floor(std::log10(std::abs(amount))));
  const double unit = std::pow(10, exponent - kDigits + 1), rounded = std::round(amount / unit) * unit;
  const int decimals = kDigits - 1 - int(std::floor(std::log10(std::abs(rounded)) + 1e-9));
  return fmt::format("{:.{}f} {}", decimals > 0 ? rounded : amount, std::max(decimals, 0), money->currency);
}

std::string price_note(const Cluster& cluster) {
  if (!price_per_hour(cluster)) return "";
  return fmt::format("{}, {}", cluster.price.source, cluster.price.date);
}

}  // namespace trireme
