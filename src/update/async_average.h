// Asynchronous averaging: a replica's weights are merged into the shared ones as soon as it has finished its part. No
// replica waits.
//
// dislib's asynchronous strategy (Vazquez-Novoa et al., "Scalable neural network training: distributed data-parallel
// approaches", 2025, and dislib's source): model = (model + replica) / 2, in the order in which replicas are ready. The
// replica continues with the new model. The result is the mean of the replicas' weights. After merges of w_1 .. w_n the
// model is 2^-n m_0 + sum of 2^-(n-i+1) w_i.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "trireme/config.h"
#include "trireme/policy.h"
#include "update/codec.h"
#include "update/local_sgd.h"

namespace trireme {

struct AsyncAverageOptions {
  Length every = {1, Length::Unit::epochs};
  /// half: a replica's weights are merged with share 1/2 (dislib). by_samples: with share n / (n + m), where n is the
  /// number of samples that the replica has seen since it read the model, and m the number that other replicas have
  /// merged since then. The share depends on samples and staleness; it is 1 if no other replica has merged. With
  /// by_samples the run's result is the model.
  enum class Share { half, by_samples } share = Share::half;
  Moments moments = Moments::kept;  ///< reset: as dislib, which makes a new optimizer. `averaged` is not supported
  int shards = 1;                   ///< shards of the model; each counts samples and staleness separately
  std::optional<Codec> compression = {};  ///< of what replicas send, with error feedback

  std::string description() const;  ///< the policy's description with these options
};

std::unique_ptr<UpdatePolicy> async_average(const AsyncAverageOptions& options);

}  // namespace trireme
