// What would become of a plan on other machines.
#pragma once

#include <string>
#include <vector>

#include "planner/exact/find_plan.h"

namespace trireme {

struct WhatIf {
  std::string change;  ///< "links were twice as fast"
  PlanAnswer answer;   ///< without `shortfall`
};

/// The request asked again with links twice as fast (half the latency too), and with half the memory. Where devices have no limit: with a
/// limit of half of what the fullest device of `best`, the answer so far, holds.
std::vector<WhatIf> what_if(const PlanRequest& request, const RatedPlan& best);

}  // namespace trireme
