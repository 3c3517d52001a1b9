// What `trireme plan best --explain` says about a plan and those that it is better than.
#pragma once

#include <string>
#include <vector>

#include "forecast/best_plan.h"
#include "planner/exact/sensitivity.h"

namespace trireme {

/// "12.3 ms", "113 MiB" or "0.0000137 USD a step": what a plan is judged by, in its unit.
std::string amount_in_words(double value, Objective objective, const std::string& currency);

/// A table of the finalists, best first, with what the formula's seconds are made of on the stage that decides; then,
/// for each but the first, the term that put it behind: computing, exchange, bubble, update, memory, price. Not empty.
std::string explanation(const std::vector<Finalist>& finalists, Objective objective, const Model& model);

/// "if links were twice as fast: 10 ms by the formula in place of 12 ms (-16.7 %), by the same plan", and whether its
/// search ran out of time.
std::string if_in_words(const WhatIf& what_if, const RatedPlan& best, Objective objective, const std::string& currency,
                        const Model& model);

}  // namespace trireme
