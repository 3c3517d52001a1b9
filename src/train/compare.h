// Results that need several rows of a comparison.
#pragma once

#include <string>

#include "metrics/result.h"

namespace trireme {

/// Adds the price of an epoch and of reaching the target to all rows, if the result has a price of the machine that ran
/// them.
void add_prices(ExperimentResult& result);

/// Returns "real", or "modelled" for a row whose times come from a model. Only times of the same clock are compared.
std::string clock_of(const RunResult& row);

/// Returns true if the row's times were measured on this machine's clock.
bool is_in_real_time(const RunResult& row);

/// Returns the row whose throughput per device is the ideal of all rows with this clock: the `single` row. Where
/// batches are per device (weak scaling) and that did not run: the row with the greatest throughput among those on the
/// fewest devices. Null: there is none. Only rows that are ok or timed out count.
const RunResult* scaling_base(const ExperimentResult& result, const std::string& clock);

/// Adds prices. Fills in for all rows: the scaling efficiency relative to scaling_base(); the test results after
/// equal samples (the most that every row that is ok or timed out reached); and those after equal time (the training
/// time of the shortest such row with the same clock). Warns in rows that ended early if such rows have not all reached
/// equally many samples. Idempotent.
void complete_comparison(ExperimentResult& result);

}  // namespace trireme
