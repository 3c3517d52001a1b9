// Batch norm's running statistics of several replicas as those of one.
//
// The variance of a union is the mean of the variances plus the variance of the means: averaging variances alone
// ignores that replicas' means differ. (Chan, Golub, LeVeque, "Algorithms for computing the sample variance", 1983.)
#pragma once

#include <span>

#include "trireme/hub.h"
#include "trireme/replica_state.h"

namespace trireme {

/// Becomes the statistics of the members' samples together, in place and equal on all. `weight`: this replica's,
/// relative to the others'; nullopt: all count alike. Two collectives.
void average_statistics(std::span<RunningStatistics> statistics, std::optional<double> weight,
                        std::span<const int> members, Hub& hub);

/// Becomes those of a mixture that holds `share` (0 to 1) of `other` and the rest of `statistics`.
void mix_statistics(std::span<RunningStatistics> statistics, std::span<const RunningStatistics> other, double share);

/// As tensors of a request or reply: mean, variance, mean, ... The tensors are not copied.
std::vector<at::Tensor> tensors_of(std::span<const RunningStatistics> statistics);
std::vector<RunningStatistics> statistics_of(std::span<const at::Tensor> tensors);
std::vector<RunningStatistics> copies_of(std::span<const RunningStatistics> statistics);
void copy_statistics(std::span<const RunningStatistics> from, std::span<RunningStatistics> to);

}  // namespace trireme
