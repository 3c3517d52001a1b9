// Updates of parts of a bucket. Layer-wise optimizers (LARS, LAMB) update parameter by parameter. The factor of each
// parameter follows from norms of the full parameter, of which a worker may own any slice. measure_part computes sums
// over the part that the worker owns; the totals over all workers give the factors.
#pragma once

#include <span>
#include <vector>

#include "program/program.h"
#include "runtime/optimizer.h"

namespace trireme {

/// True if layer-wise optimizers scale and decay the parameter: it has two dims or more. Vectors (biases, and the
/// scales and shifts of norms) take the plain step without decay, as in the implementations of the papers.
bool is_adapted(const ParameterSpec& parameter);

/// Updates `work.slice`, which begins at element `begin` of the bucket. `trust`: by parameter of the program; ignored
/// for kinds that are not layer-wise.
void update_part(const OptimizerConfig& config, const Program& program, const Bucket& bucket, int64_t begin,
                 const SliceUpdate& work, std::span<const double> trust);

/// Adds the result of measure_slice for each parameter in `work.slice` to `sums`, by parameter of the program.
void measure_part(const OptimizerConfig& config, const Program& program, const Bucket& bucket, int64_t begin,
                  const SliceUpdate& work, std::span<SquareSums> sums);

/// Returns the factors by parameter. `sums` are the sums over all workers.
std::vector<double> trust_ratios(const OptimizerConfig& config, const Program& program,
                                 std::span<const SquareSums> sums);

}  // namespace trireme
