// Local SGD: replicas train on their own and average their weights now and then.
//
// Stich, "Local SGD converges fast and communicates little", 2019. Once per epoch it is dislib's synchronous strategy
// (Vazquez-Novoa et al., "Scalable neural network training: distributed data-parallel approaches", 2025), with every =
// "n epochs" its every_n_epochs. Averaging after every step at first: post-local SGD (Lin, Stich, Patel, Jaggi, "Don't
// use large mini-batches, use local SGD", 2020). With an average that travels while training goes on: delayed averaging
// (Zhou, Ye, Yang, Lin, "DaSGD: squeezing SGD parallelization performance in distributed training using delayed
// averaging", 2020): what a replica has moved meanwhile is added to the mean of where all set out.
#pragma once

#include <memory>

#include "trireme/config.h"
#include "trireme/policy.h"
#include "trireme/units.h"

namespace trireme {

/// What becomes of the local optimizer's moments when weights are exchanged. `reset`: zeros.
enum class Moments { kept, averaged, reset };

struct LocalSgdOptions {
  Length every = {
      1, Length::Unit::epochs};  ///< in steps: all replicas make equally many; in epochs their steps may differ
  Length post_local_after = {0, Length::Unit::steps};
  bool weight_by_samples =
      false;  ///< weights count by the samples they have seen since the last average; else all alike
  Moments moments = Moments::kept;
  int64_t overlap =
      0;  ///< steps that an average has to come in, at most `every`, which is in steps then; 0: replicas wait for it.
          ///< Needs equal weights, kept moments and no dense part; running statistics are averaged at the end
  bool average_statistics = true;  ///< running statistics of batch norms; false: each replica keeps its own (dislib)
};

std::unique_ptr<UpdatePolicy> local_sgd(const LocalSgdOptions& options);

/// Reads `key` as "kept", "averaged" or "reset".
Moments read_moments(const ConfigTable& update, Moments fallback, bool may_average);
/// As it is written in an experiment.
const char* text_of(Moments moments);
void reset_moments(ReplicaState& state);

}  // namespace trireme
