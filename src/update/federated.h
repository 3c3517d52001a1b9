// Federated learning: in each round some of the clients train on their own samples, and a server applies their mean
// update.
//
// FedAvg: McMahan et al., "Communication-efficient learning of deep networks from decentralized data", 2017; weights
// n_k / n over the clients that answered. FedProx: Li et al., "Federated optimization in heterogeneous networks", 2020:
// the client's loss has the additional term mu / 2 |w - w_t|^2. Its gradient step, rate mu (w - w_t), is subtracted
// from the weights together with the local optimizer's step. For plain SGD this is exactly the method; with other
// optimizers the term does not enter their moments. FedAdam and variants: server_optimizer.h. FedNova and means that
// withstand broken clients: round_sum.h. SCAFFOLD: Karimireddy et al., "SCAFFOLD: stochastic controlled averaging for
// federated learning", 2020, option II: a client adds c - c_i to each gradient; c is the mean of all clients' c_i.
// After a round from x to y, c_i becomes c_i - c + (x - y) / (sum of the learning rates).
//
// A replica is a client. It makes steps in the rounds for which it is selected: before_step returns when it is
// selected, or returns `stop` when there are no more rounds. A round ends when all selected clients have answered or
// its time is up. Later answers are not used.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "trireme/policy.h"
#include "update/federated_options.h"
#include "update/federated_rounds.h"
#include "update/privacy.h"

namespace trireme {

/// Thread-safe, except for on_round and run_seconds, which must be set before the run.
class FederatedPolicy : public UpdatePolicy {
 public:
  /// Called at the end of each round, on the thread of the replica that ended it; the server waits meanwhile. The
  /// values are the server's own memory. Local parameters in them are the means over the clients.
  OnRound on_round;
  /// Converts a time of the hub's clock to seconds of the run, for the rounds' records. Null: records have the hub's
  /// time.
  RunSeconds run_seconds;
  virtual const FederatedOptions& options() const = 0;
  /// True if the options give the number of rounds. Otherwise rounds continue until stop().
  virtual bool counts_rounds() const = 0;
  /// Makes the open round the last one.
  virtual void stop() = 0;
  /// Returns the records of all finished rounds.
  virtual std::vector<RoundRecord> rounds() const = 0;
  /// If clients have local parameters: returns the model of each client, by its number: the shared weights, and a copy
  /// of the local parameters that the client had at the end of its last round. Empty if all clients have the same
  /// model. Call it in on_round, or while no client visits the server.
  virtual std::map<int, ModelValues> own_models() const { return {}; }
  /// Returns what all finished rounds have spent of the clients' privacy; nullopt: the options ask for none.
  std::optional<PrivacySpent> privacy() const;
};

std::unique_ptr<FederatedPolicy> federated(const FederatedOptions& options);

}  // namespace trireme
