// Federated learning: in each round some of the clients train on their own samples, and a server takes their mean
// update.
//
// FedAvg: McMahan et al., "Communication-efficient learning of deep networks from decentralized data", 2017; weights
// n_k / n over those that answered. FedProx: Li et al., "Federated optimization in heterogeneous networks", 2020: the
// client's loss has mu / 2 |w - w_t|^2 in addition, whose gradient's step, rate mu (w - w_t), is taken from the weights
// together with the local optimizer's (exactly the method for plain SGD; beside an optimizer with moments it does not
// enter them). FedAdam and its kin: server_optimizer.h.
//
// A replica is a client. It makes steps in the rounds for which it is selected; before_step returns when it is, or says
// stop when there are no more rounds. A round is over when all who were selected have answered or its time is up; who
// comes later is not counted.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "trireme/policy.h"
#include "trireme/units.h"
#include "update/federated_rounds.h"
#include "update/local_sgd.h"
#include "update/server_optimizer.h"

namespace trireme {

struct FederatedOptions {
  RoundOptions rounds = {};
  Length local = {1, Length::Unit::epochs};  ///< a client's work in a round; it begins where its last one ended
  double proximal = 0;                       ///< FedProx's mu
  ServerOptimizerOptions server = {};
  double clip_norm = 0;  ///< an update whose norm over all weights is larger is scaled down to it; 0: none
  double dropout =
      0;  ///< share of its rounds that a client does not answer in, drawn from the seed; needs rounds.timeout
  Moments moments = Moments::reset;  ///< when a client begins a round; not averaged
};

/// Thread-safe, but for on_round, which is set before the run.
class FederatedPolicy : public UpdatePolicy {
 public:
  /// Called at the end of each round, by the thread of the replica that ended it, while the server waits; the values
  /// are the server's own.
  std::function<void(const RoundRecord& record, const ModelValues& values)> on_round;
  /// Whether the options say how many rounds there are; else there are rounds until stop().
  virtual bool counts_rounds() const = 0;
  /// The open round is the last one.
  virtual void stop() = 0;
  /// Of all rounds that are over.
  virtual std::vector<RoundRecord> rounds() const = 0;
};

std::unique_ptr<FederatedPolicy> federated(const FederatedOptions& options);

}  // namespace trireme
