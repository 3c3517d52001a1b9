// The price of time on a cluster. Prices are those of the cluster file.
#pragma once

#include <optional>
#include <string>

#include "trireme/cluster.h"

namespace trireme {

struct Money {
  double amount = 0;
  std::string currency = "USD";
};

/// Price of all nodes per hour; empty if the price of a node is not known. Machines are rented whole; first_devices
/// (plan/cluster_file.h) removes the nodes that are not used.
std::optional<Money> price_per_hour(const Cluster& cluster);

std::optional<Money> price_of(const Cluster& cluster, double seconds);
std::optional<Money> price_per_epoch(const Cluster& cluster, double seconds_per_step, double steps_per_epoch);

/// "12.3 USD", with three significant digits; "1234 USD" from 1000 on; "-" if the price is not known.
std::string format_money(const std::optional<Money>& money);

/// The source of the prices: "AWS EC2 on-demand list, 2023-06"; "" if there are no prices.
std::string price_note(const Cluster& cluster);

}  // namespace trireme
