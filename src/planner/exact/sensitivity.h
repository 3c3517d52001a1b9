// What would become of a plan on other machines.
#pragma once

#include <string>
#include <vector>

#include "planner/exact/find_plan.h"

namespace trireme {

struct WhatIf {
  std::string change;     ///< "links were twice as fast"
  PlanAnswer answer;      ///< without `shortfall`
  bool tightens = false;  ///< whatever fits then fits now: only a search that ran out of time can find something better
                          ///< than what is known
};

/// The request asked again with links twice as fast (half the latency too; memory does not depend on them), and with
/// half the memory. Where devices have no limit: with a limit of half of what the fullest device of `known` holds.
/// `known`, the answer so far, has a plan, with which each search begins; half the memory is searched only where that
/// plan does not fit into it. Each may take the request's time limit again.
std::vector<WhatIf> what_if(const PlanRequest& request, const PlanAnswer& known);

}  // namespace trireme
