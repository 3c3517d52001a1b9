// The options of federated learning (update/federated.h).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trireme/config.h"
#include "trireme/policy.h"
#include "update/codec.h"
#include "update/federated_rounds.h"
#include "update/local_sgd.h"
#include "update/privacy.h"
#include "update/round_sum.h"
#include "update/server_optimizer.h"

namespace trireme {

struct FederatedOptions {
  RoundOptions rounds = {};
  /// a client's work in a round; it continues where the client's last round ended
  Length local = {1, Length::Unit::epochs};
  double proximal = 0;  ///< mu of FedProx
  ServerOptimizerOptions server = {};
  double clip_norm = 0;  ///< an update with a larger norm over all weights is scaled down to it; 0: no clipping
  /// share of a client's rounds in which it does not answer, drawn from the seed; requires rounds.timeout
  double dropout = 0;
  AggregateOptions aggregate = {};  ///< how a round's answers are combined
  /// Requires clip_norm, a fraction above 0, clients that count equally, no control variates, and a model without
  /// running statistics. rounds.secret must be set.
  PrivacyOptions privacy = {};
  /// SCAFFOLD. Requires clients with plain SGD, as AggregateOptions::Kind::normalized does.
  bool control_variates = false;
  Moments moments = Moments::reset;  ///< of a client, at the beginning of a round; `averaged` is not supported
  /// FedBN and FedPer (update/local_parts.h): UpdatePolicy::local_parameters. They are neither sent nor averaged;
  /// clipping, FedProx's term and control variates leave them out. Not with privacy.
  std::vector<std::string> local_parameters = {};
  std::optional<Codec> compression = {};  ///< of what replicas send, with error feedback

  /// True if a client must know the sum of its learning rates in a round.
  bool needs_progress() const { return control_variates || aggregate.kind == AggregateOptions::Kind::normalized; }
};

using OnRound = std::function<void(const RoundRecord& record, const ModelValues& values)>;
using RunSeconds = std::function<double(double now)>;

}  // namespace trireme
