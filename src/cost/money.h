// What time on a cluster costs. Prices are the cluster file's; nothing is looked up.
#pragma once

#include <optional>
#include <string>

#include "trireme/cluster.h"

namespace trireme {

struct Money {
  double amount = 0;
  std::string currency = "USD";
};

/// Of all nodes for an hour; none where the price of one is not known. Machines are rented whole: first_devices
/// (plan/cluster_file.h) leaves out the nodes that are not used.
std::optional<Money> price_per_hour(const Cluster& cluster);

std::optional<Money> price_of(const Cluster& cluster, double seconds);
std::optional<Money> price_per_epoch(const Cluster& cluster, double seconds_per_step, double steps_per_epoch);

/// "12.3 USD", three significant digits; "1234 USD" from 1000 on; "-" where the price is not known.
std::string format_money(const std::optional<Money>& money);

/// Where the prices are from: "AWS EC2 on-demand list, 2023-06"; "" where there are none.
std::string price_note(const Cluster& cluster);

}  // namespace trireme
