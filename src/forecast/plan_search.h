// Internal to find_best_plan: the candidates in one order of the devices.
//
// A plan fits if the memory that is predicted from its program (cost/memory.h) is within the devices' limits: the same
// count that a user is shown. The planner's formula only guides the search. It counts less than the program, or more,
// so the planner searches under one limit after another (rungs, a factor of 2^(1/4) apart), from twice the devices'
// memory (without a limit: from no limit) down to where its formula finds no plan, and last for the least memory. The
// program of each plan that it finds is simulated and counted, and the best of those that fit is the answer.
//
// More memory never gives a worse plan: which rungs there are and what is found on each does not depend on the devices'
// limit, except that a smaller limit leaves out rungs at the top. So the candidates of a limit are also candidates of
// each greater limit. This is so of thorough searches (BestPlanOptions). Three things can break this: the time limit; a
// plan that simulates faster than the formula says by more than kFormulaError, because rungs below the one whose lower
// bound is that far behind are left out; and unequal devices whose memory grows by different factors, because a rung
// keeps the devices' shares of the largest.
#pragma once

#include <vector>

#include "forecast/finalists.h"

namespace trireme {

/// Plans whose time by the formula is longer by more than this share than the best simulated time of a plan that fits
/// are not searched for.
inline constexpr double kFormulaError = 0.5;

/// Finds the best plan on the first devices of `order`. Finalists as in BestPlan.
BestPlan find_in_order(const RunSpec& experiment, const Model& model, const std::vector<int>& order,
                       const SourceOfDevices& source_of, const BestPlanOptions& options);

/// Sorts finalists: those that fit first, then by the value of the objective; of equal ones the faster and the smaller
/// first.
void rank(std::vector<Finalist>& finalists, Objective objective);

/// The value by which a finalist is ranked: simulated seconds, bytes of its program, or money by the formula.
double value_of(const Finalist& finalist, Objective objective);

}  // namespace trireme
