// Replicas whose leaders are the ranks of one Communicator, over whichever backend: processes over gloo or MPI,
// threads, threads in virtual time.
//
// Collectives are the backend's. Rank 0 holds the parameter server's shards: its own replica visits in memory; each
// other one over a group of two, at whose other end a thread beside rank 0 serves it, since a Communicator is one
// thread's and receives from one rank.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/local/local_world.h"
#include "trireme/communicator.h"
#include "update/hub/shard_host.h"

namespace trireme {

class RankHub;

/// The world as one rank sees it; belongs to that rank's thread but for abort. A rank that dies ends the others as the
/// backend says.
class RankWorld final : public HubWorld {
 public:
  /// What rank 0 does with reports of other replicas (Hub::report); called by one thread per replica.
  using OnReport = std::function<void(int replica, Request report)>;
  /// All ranks of `leaders` make theirs together, and wait for each other. `server`: null on all ranks where the policy
  /// has none; used on rank 0 only. Both outlive it. `on_report`: null on all ranks where replicas report nothing;
  /// called on rank 0 only.
  RankWorld(Communicator& leaders, ShardServer* server, OnReport on_report = nullptr);
  /// Where the rank's replica has not left, and nothing has failed, all are aborted: others may wait for it.
  ~RankWorld() override;

  int replicas() const override { return leaders_.size(); }
  /// The rank's own.
  Hub& hub(int replica) override;
  void abort(const std::string& reason) override { leaders_.abort(reason); }
  bool decides() const override { return leaders_.rank() == 0; }
  std::string abort_reason() const override { return leaders_.abort_reason(); }
  /// Runs `body` for the rank's replica, on this thread. On rank 0 it returns when all have left.
  void run(const std::function<void(Hub&)>& body) override;
  /// On rank 0 of all that have left; else of the rank's own.
  HubCounts counts(int replica) override;

 private:
  friend class RankHub;

  /// Serves a replica until it has left.
  void serve(int replica, Communicator& pair, int runner);
  /// Rank 0: until all others have left, whose counts it takes.
  void wait_for_the_others(Communicator& control);

  Communicator& leaders_;
  const OnReport on_report_;
  LocalWorld waiting_;             ///< where visitors and rank 0 wait
  std::optional<ShardHost> host_;  ///< rank 0, with a server
  std::vector<HubCounts> counts_;
  std::unique_ptr<RankHub> hub_;
  bool has_left_ = false;
  std::vector<std::unique_ptr<Communicator>> pairs_;  ///< rank 0: with each other rank
  std::atomic<int64_t> served_{0};                    ///< threads that have ended
  std::vector<std::thread> threads_;
};

}  // namespace trireme
