// The server of federated clients: it holds the shared weights, selects each round's clients and applies their update.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "update/central_server.h"
#include "update/federated_options.h"
#include "update/federated_rounds.h"
#include "update/round_sum.h"
#include "update/server_optimizer.h"

namespace trireme {

/// Throws a user error: running statistics of a model under differential privacy.
[[noreturn]] void refuse_private_statistics();

/// Requests: `join` waits until the client works in the open round; its reply has the outcome, the round and the
/// weights. `answer` (round, samples, progress) brings the client's update; its reply says whether it counts. `leave`:
/// the client takes no further part. `return`: it takes part again. With control variates, `variate` fetches the
/// server's control variate after `join`, and `change` brings the change of the client's before `answer`.
///
/// With local parameters the server also stores the newest ones of each client, for evaluations and checkpoints. `keep`
/// brings a client's local parameters, unmetered. `own` fetches them again; if the client has brought none, it fetches
/// the mean over all clients, as `mean` does. Before the end of the run they never enter the weights of another client.
class FederatedServer final : public CentralServer {
 public:
  enum Joined { kWorks, kIsOver, kIsHeld };
  static constexpr int kJoin = kFirstOperation, kAnswer = kFirstOperation + 1, kLeave = kFirstOperation + 2,
                       kReturn = kFirstOperation + 3, kVariate = kFirstOperation + 4, kChange = kFirstOperation + 5;
  static constexpr int kKeep = kFirstOfOthers, kOwn = kFirstOfOthers + 1, kMean = kFirstOfOthers + 2;

  /// `on_round`, `run_seconds`: see FederatedPolicy; they must outlive the server, and may be set before the run
  /// begins.
  FederatedServer(const FederatedOptions& options, const OnRound& on_round, const RunSeconds& run_seconds)
      : CentralServer(1, options.compression),
        options_(options),
        on_round_(on_round),
        run_seconds_(run_seconds),
        rounds_(options.rounds),
        optimizer_(options.server),
        sum_(options.aggregate) {}

  double deadline(int) const override { return rounds_.deadline(); }
  /// A round that was open in the resumed state remains open.
  void start(double now) override {
    if (resumed_) rounds_.delay(now - *resumed_);
    else rounds_.start(now);
  }
  void lose(int client, double) override { rounds_.lose(client); }
  void readmit(int client, double now) override { rounds_.readmit(client, now); }
  /// The shared values. Local parameters, if there are any, are the means over the clients; nullopt if no client has
  /// brought its own yet.
  std::optional<ModelValues> values() const override;

  void stop() { stops_ = true; }
  /// Call it before any visit.
  void set_local(std::shared_ptr<const LocalParts> parts) { local_ = std::move(parts); }
  /// See FederatedPolicy::own_models.
  std::map<int, ModelValues> own_models() const;
  std::vector<RoundRecord> records() const;

 protected:
  std::optional<Reply> apply(CentralShard& shard, int index, int client, CentralRequest& request, double now) override;
  Reply serve_other(const CentralShard& shard, int client, const Request& request) override;
  void server_fields(StateFields& fields, double now) override;
  void shard_fields(StateFields& fields, int index, CentralShard& shard) override;
  void begin_anew(int client) override { rounds_.begin_anew(client); }

 private:
  std::optional<Reply> join(const CentralShard& shard, int client);
  Reply variate(const CentralShard& shard, int client, int64_t told);
  void note_change(const CentralShard& shard, int client, CentralRequest& request);
  bool take(int client, const CentralRequest& request);
  void keep(const CentralShard& shard, int client, const Request& request);
  std::vector<at::Tensor> update_of_round(const CentralShard& shard) const;
  ModelValues values_of_round(const CentralShard& shard) const;
  void end_round(CentralShard& shard, double now);

  // accessed only by the current visitor of the one shard
  const FederatedOptions options_;
  const OnRound& on_round_;
  const RunSeconds& run_seconds_;
  FederatedRounds rounds_;
  ServerOptimizer optimizer_;
  RoundSum sum_;
  std::vector<at::Tensor> variate_;                 ///< the mean of the clients' control variates; empty: zero
  std::vector<at::Tensor> change_;                  ///< the sum of their changes in the open round; empty: zero
  std::map<int, std::vector<at::Tensor>> changes_;  ///< by client: its change, until its answer
  int64_t epoch_ = 0;                               ///< of the control variates
  std::set<int> counted_;                           ///< clients whose variates are part of the mean
  std::optional<double> resumed_;                   ///< time on the hub's clock; null: not resumed
  std::shared_ptr<const LocalParts> local_;         ///< null: the clients exchange everything
  std::map<int, ModelValues> own_;                  ///< by client: its newest local parameters and statistics

  std::atomic<bool> stops_ = false;
  mutable Mutex mutex_;
  std::vector<RoundRecord> records_ TRIREME_GUARDED_BY(mutex_);
};

}  // namespace trireme
