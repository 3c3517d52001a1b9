// Combines batch norms' running statistics of several replicas.
//
// The variance of a union is the mean of the variances plus the variance of the means. Averaging only the variances
// ignores that the replicas' means differ. (Chan, Golub, LeVeque, "Algorithms for computing the sample variance",
// 1983.)
#pragma once

#include <span>

#include "trireme/hub.h"

namespace trireme {

/// Replaces the statistics by those of all members' samples together, in place and equal on all members. `weight` is
/// this replica's, relative to the others'; nullopt: equal weights. Uses two collectives.
void average_statistics(std::span<RunningStatistics> statistics, std::optional<double> weight,
                        std::span<const int> members, Hub& hub);

/// Replaces `statistics` by those of a mixture: `share` (0 to 1) of `other`, the rest of `statistics`.
void mix_statistics(std::span<RunningStatistics> statistics, std::span<const RunningStatistics> other, double share);

/// Converts statistics to tensors of a request or reply: mean, variance, mean, ... The tensors are not copied.
std::vector<at::Tensor> tensors_of(std::span<const RunningStatistics> statistics);
std::vector<RunningStatistics> statistics_of(std::span<const at::Tensor> tensors);
std::vector<RunningStatistics> copies_of(std::span<const RunningStatistics> statistics);
/// True if no tensor has an infinity or a NaN.
bool all_finite(std::span<const at::Tensor> tensors);
void copy_statistics(std::span<const RunningStatistics> from, std::span<RunningStatistics> to);

}  // namespace trireme
