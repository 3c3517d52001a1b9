// Replicas whose leaders are the ranks of one Communicator, over any backend: processes over gloo or MPI, threads,
// threads in modelled time.
//
// Collectives are the backend's. Rank 0 holds the parameter server's shards. Its own replica visits them in memory.
// Each other replica uses a group of two with rank 0; on rank 0 a separate thread per group serves it, because a
// Communicator is used by one thread and receives from one rank at a time.
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
#include "update/hub/hub_world.h"
#include "update/hub/shard_host.h"

namespace trireme {

class RankHub;

/// The world on one rank. Used by that rank's thread only, except abort. If a rank dies, the other ranks end as the
/// backend defines.
class RankWorld final : public HubWorld {
 public:
  /// Called on rank 0 with reports of other replicas (Hub::report), by one thread per replica. Returns the number that
  /// the replica gets as answer (Hub::announced).
  using OnReport = std::function<int64_t(int replica, Request report)>;
  /// All ranks of `leaders` must construct theirs together; they wait for each other. `server`: null on all ranks if
  /// the policy has none; used on rank 0 only. Both must outlive this object. `on_report`: null on all ranks if
  /// replicas report nothing; called on rank 0 only.
  RankWorld(Communicator& leaders, ShardServer* server, OnReport on_report = nullptr);
  /// If this rank's replica has not left and nothing has failed, aborts all ranks, because others may wait for it.
  ~RankWorld() override;

  int replicas() const override { return leaders_.size(); }
  /// Returns the rank's own hub; other numbers are an internal error.
  Hub& hub(int replica) override;
  void abort(const std::string& reason) override { leaders_.abort(reason); }
  bool decides() const override { return leaders_.rank() == 0; }
  std::string abort_reason() const override { return leaders_.abort_reason(); }
  FlightRecorder* recorder() override;
  /// Runs `body` for the rank's replica, on this thread. On rank 0 it returns after all replicas have left.
  void run(const std::function<void(Hub&)>& body) override;
  /// On rank 0: the counts of any replica that has left. On other ranks: only the rank's own counts.
  HubCounts counts(int replica) override;

 private:
  friend class RankHub;

  void answer_report(int replica, Request report, Communicator& pair);
  /// Serves a replica until it has left.
  void serve(int replica, Communicator& pair, int runner);
  /// On rank 0: waits until all other replicas have left, and takes their counts.
  void wait_for_the_others(Communicator& control);

  Communicator& leaders_;
  const OnReport on_report_;
  LocalWorld waiting_;             ///< where visitors and rank 0 wait
  std::optional<ShardHost> host_;  ///< on rank 0, if there is a server
  std::vector<HubCounts> counts_;
  std::unique_ptr<RankHub> hub_;
  bool has_left_ = false;
  std::vector<std::unique_ptr<Communicator>> pairs_;  ///< on rank 0: a group with each other rank
  std::atomic<int64_t> served_{0};                    ///< number of serving threads that have ended
  std::vector<std::thread> threads_;
};

}  // namespace trireme
