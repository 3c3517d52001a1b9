// Local SGD: replicas train independently and average their weights at intervals.
//
// Stich, "Local SGD converges fast and communicates little", 2019. Once per epoch it is dislib's synchronous strategy
// (Vazquez-Novoa et al., "Scalable neural network training: distributed data-parallel approaches", 2025); with every =
// "n epochs" its every_n_epochs. With averages after every step at first it is post-local SGD (Lin, Stich, Patel,
// Jaggi, "Don't use large mini-batches, use local SGD", 2020). With an average that is exchanged while training
// continues it is delayed averaging (Zhou, Ye, Yang, Lin, "DaSGD: squeezing SGD parallelization performance in
// distributed training using delayed averaging", 2020): a replica's change since the exchange began is added to the
// mean of the weights at its beginning.
#pragma once

#include <memory>
#include <optional>

#include "trireme/config.h"
#include "trireme/policy.h"
#include "update/codec.h"

namespace trireme {

/// What happens to the local optimizer's moments when weights are exchanged. `reset` sets them to zero.
enum class Moments { kept, averaged, reset };

struct LocalSgdOptions {
  Length every = {
      /// in steps: all replicas make the same number; in epochs: their numbers of steps may differ
      1, Length::Unit::epochs};
  Length post_local_after = {0, Length::Unit::steps};
  bool weight_by_samples = false;  ///< replicas are weighted by samples since the last average; otherwise equally
  Moments moments = Moments::kept;
  /// steps within which an average must arrive, at most `every`, which must be in steps; 0: replicas wait for it.
  /// Requires equal weights, kept moments and no dense part; running statistics are averaged at the end
  int64_t overlap = 0;
  /// average the batch norms' running statistics; false: each replica keeps its own (dislib)
  bool average_statistics = true;
  /// of the weights, with error feedback; requires equal weights, no averages of moments, and no overlap
  std::optional<Codec> compression = {};
};

std::unique_ptr<UpdatePolicy> local_sgd(const LocalSgdOptions& options);

/// Reads the key "moments": "kept", "reset", or "averaged" if `may_average`.
Moments read_moments(const ConfigTable& update, Moments fallback, bool may_average);
/// Returns the word as written in an experiment.
const char* text_of(Moments moments);
void reset_moments(ReplicaState& state);

}  // namespace trireme
