// Updates of whole parts of a bucket. Layer-wise optimizers (LARS, LAMB) go parameter by parameter, each with the
// factor that follows from norms of the full parameter, of which a worker may own any slice: measure_part gives the
// sums over what it owns, their totals over all workers give the factors.
#pragma once

#include <span>
#include <vector>

#include "program/program.h"
#include "runtime/optimizer.h"

namespace trireme {

/// Whether layer-wise optimizers scale and decay it: parameters of two dims or more. Biases and what norms scale and
/// shift by, vectors all of them, take the plain step without decay, as in the papers' implementations.
bool is_adapted(const ParameterSpec& parameter);

/// Updates `work.slice`, which begins at element `begin` of the bucket. `trust`: by parameter of the program; unused by
/// kinds that are not layer-wise.
void update_part(const OptimizerConfig& config, const Program& program, const Bucket& bucket, int64_t begin,
                 const SliceUpdate& work, std::span<const double> trust);

/// measure_slice of every parameter in `work.slice`, added to `sums` by parameter of the program.
void measure_part(const OptimizerConfig& config, const Program& program, const Bucket& bucket, int64_t begin,
                  const SliceUpdate& work, std::span<SquareSums> sums);

/// The factors by parameter, from sums over all workers.
std::vector<double> trust_ratios(const OptimizerConfig& config, const Program& program,
                                 std::span<const SquareSums> sums);

}  // namespace trireme
