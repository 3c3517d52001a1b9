// The text that `trireme plan best --explain` prints about a plan and its runners-up.
#pragma once

#include <string>
#include <vector>

#include "forecast/best_plan.h"
#include "planner/exact/sensitivity.h"

namespace trireme {

/// Returns "12.3 ms", "113 MiB" or "0.0000137 USD a step": the objective's value in its unit.
std::string amount_in_words(double value, Objective objective, const std::string& currency);

/// Returns a table of the finalists, best first, with the terms of the formula's seconds on the deciding stage; then,
/// for each runner-up, the term that decided against it: computing, exchange, bubble, update, memory, price. Never
/// empty.
std::string explanation(const std::vector<Finalist>& finalists, Objective objective, const Model& model);

/// Returns "if links were twice as fast: 10 ms by the formula instead of 12 ms (-16.7 %), with the same plan", and
/// whether that search reached its time limit.
std::string if_in_words(const WhatIf& what_if, const RatedPlan& best, Objective objective, const std::string& currency,
                        const Model& model);

}  // namespace trireme
