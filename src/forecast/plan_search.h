// Internal to find_best_plan: the candidates in one order of the devices.
//
// A plan fits if the memory that is predicted from its program (cost/memory.h) is within the devices' limits. Users see
// the same number. The planner's memory formula only guides the search, because it may give less or more than the
// program needs. So the planner searches under a series of memory limits, called rungs, a factor of 2^(1/4) apart. It
// begins at twice the devices' memory (if devices have no limit, without one) and goes down until its formula finds no
// plan; the last search is for the least memory. The program of each plan that is found is simulated and its memory is
// counted. The answer is the best plan that fits.
//
// More memory never gives a worse plan: the rungs and the plans on each do not depend on the devices' limit, except
// that a smaller limit leaves out the highest rungs. So the candidates under a limit are also candidates under every
// greater limit. This holds for thorough searches (BestPlanOptions), with three exceptions. The time limit may end the
// search. A plan may simulate faster than the formula says by more than kFormulaError; it can be missed, because rungs
// are left out below the one whose lower bound is that far behind. And the memory of unequal devices may grow by
// different factors, while a rung keeps the ratios of their memory.
#pragma once

#include <vector>

#include "forecast/finalists.h"

namespace trireme {

/// The search leaves out plans whose time by the formula is more than this share longer than the best simulated time of
/// a plan that fits.
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
