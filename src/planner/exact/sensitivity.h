// The effect of other machines on a plan.
#pragma once

#include <string>
#include <vector>

#include "planner/exact/find_plan.h"

namespace trireme {

struct WhatIf {
  std::string change;     ///< "links were twice as fast"
  PlanAnswer answer;      ///< `shortfall` is not set
  bool tightens = false;  ///< each plan that fits then also fits now, so only a search that ran out of time can find a
                          ///< better plan than the known one
};

/// Repeats the request with links twice as fast (half the latency too; memory does not depend on links), and with half
/// the memory. If devices have no limit, the limit is half of the memory that the fullest device of `known` needs.
/// `known`, the present answer, must have a plan; each search starts with it. Half the memory is searched only if that
/// plan does not fit into it. Each search may take the request's time limit again.
std::vector<WhatIf> what_if(const PlanRequest& request, const PlanAnswer& known);

}  // namespace trireme
