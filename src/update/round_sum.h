// Combines the answers of a round's clients into one update.
//
// Mean: McMahan et al., "Communication-efficient learning of deep networks from decentralized data", 2017: clients
// count by their samples. Normalized: Wang et al., "Tackling the objective inconsistency problem in heterogeneous
// federated optimization" (FedNova), 2020. Against clients that send arbitrary values: the median and the trimmed mean
// of each element (Yin et al., "Byzantine-robust distributed learning", 2018) and Krum (Blanchard et al., "Machine
// learning with adversaries", 2017); there all clients count equally.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trireme/policy.h"

namespace trireme {

struct AggregateOptions {
  enum class Kind { mean, equal, normalized, median, trimmed_mean, krum } kind = Kind::mean;
  double trim = 0.1;      ///< trimmed_mean: the share of the answers that is left out at each end, rounded up
  int64_t byzantine = 0;  ///< krum: number of clients that may send arbitrary values
};

/// "mean", "median", ...
std::string text_of(AggregateOptions::Kind kind);

/// Sums are in double, so that the order of arrival does not affect the weights visibly. Not thread-safe.
class RoundSum {
 public:
  explicit RoundSum(const AggregateOptions& options) : options_(options) {}

  struct Answer {
    std::span<const at::Tensor> update;  ///< double, by part
    double scale = 1;                    ///< of the update
    std::span<const RunningStatistics> statistics = {};
    double samples = 0;   ///< that the client has seen, above 0
    double progress = 0;  ///< normalized: the sum of the client's learning rates, above 0
  };
  void add(const Answer& answer);
  /// True if at least one client has answered; for Krum if 2 `byzantine` + 3 have: with fewer it does not protect.
  bool is_enough() const;
  double samples() const { return samples_; }
  /// Returns the clients' common update, by part, in double. Requires is_enough().
  std::vector<at::Tensor> update() const;
  /// Returns the sum of the updates, scaled and weighted; empty if there are none. Not for kinds that keep all answers
  /// (median, trimmed mean, Krum).
  std::vector<at::Tensor> total() const;
  /// Running statistics of all samples.
  std::span<const RunningStatistics> statistics() const { return statistics_; }
  void clear();

  void fields(StateFields& fields, std::span<const at::Tensor> weights);

 private:
  bool keeps_all() const { return options_.kind >= AggregateOptions::Kind::median; }
  double weight_of(const Answer& answer) const;
  at::Tensor stacked(size_t part) const;
  size_t nearest_to_others() const;

  const AggregateOptions options_;
  int64_t count_ = 0;
  double samples_ = 0, weights_ = 0;
  double progress_ = 0;                       ///< normalized: weight * progress
  std::vector<at::Tensor> sums_;              ///< by part: weight * update; empty if all are kept
  std::vector<std::vector<at::Tensor>> all_;  ///< by answer, by part; empty unless all are kept
  std::vector<RunningStatistics> statistics_;
};

}  // namespace trireme
