// Asynchronous averaging: a replica's weights enter the shared ones as soon as it is through with its part, and nobody
// waits.
//
// dislib's asynchronous strategy (Vazquez-Novoa et al., "Scalable neural network training: distributed data-parallel
// approaches", 2025, and dislib's source): model = (model + replica) / 2, first ready first merged; the replica goes on
// with the new model; the result is the mean of the replicas' weights. After merges of w_1 .. w_n the model is 2^-n m_0
// + sum of 2^-(n-i+1) w_i.
#pragma once

#include <memory>
#include <string>

#include "trireme/policy.h"
#include "trireme/units.h"
#include "update/local_sgd.h"

namespace trireme {

struct AsyncAverageOptions {
  Length every = {1, Length::Unit::epochs};
  /// half: the share with which a replica's weights are merged is 1/2 (dislib). by_samples: n / (n + m), n the samples
  /// that the replica has seen since it read the model, m those that others have merged since then: a share by samples
  /// and staleness, 1 where nobody else came; the result is the model then.
  enum class Share { half, by_samples } share = Share::half;
  Moments moments = Moments::kept;  ///< reset: as dislib, which makes a new optimizer; not averaged
  int shards = 1;                   ///< of the model; each counts samples and staleness by itself

  std::string description() const;  ///< of the policy with these
};

std::unique_ptr<UpdatePolicy> async_average(const AsyncAverageOptions& options);

}  // namespace trireme
