// What only the rows of a comparison together can say.
#pragma once

#include <string>

#include "metrics/result.h"

namespace trireme {

/// What an epoch and the way to the target cost, for all rows, where the result has a price of the machine that ran
/// them.
void add_prices(ExperimentResult& result);

/// "real", or "modelled" of a row whose times are a model's: times are compared among rows of one clock.
std::string clock_of(const RunResult& row);

/// Adds prices; fills in, for all rows: scaling efficiency against the `single` row, and the test results after equal
/// samples (the most that every row that is ok or timed out reached) and after equal time (the training time of the
/// shortest such row by the same clock). Idempotent.
void complete_comparison(ExperimentResult& result);

}  // namespace trireme
