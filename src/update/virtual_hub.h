// Replicas on a modelled clock: real mathematics, durations by model.
//
// Replicas are threads that take turns in the order of their virtual clocks (comm/virtual/virtual_clock.h). A step moves its replica's clock by what
// StepTimes says, an exchange by the links: a message takes the sender's connection from when it is free, and the receiver's from then or from
// when that is free, each for bytes / its own bandwidth, and arrives the larger latency after both are through, so that a fast server receives
// from many slow replicas at once; a collective begins when its last member and their connections are
// there, and takes the bytes of comm/formulas.h on the slowest member's connection and the rounds of comm/local/emulated_links.h. So the
// same seed gives the same order of events and the same bits, on any machine.
//
// What a replica computes between two calls happens at the moment its clock shows at the first of them: a step is computed with what its
// replica had when the step began.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/local/emulated_links.h"
#include "update/failures.h"
#include "update/hub.h"
#include "update/step_times.h"
#include "comm/virtual/virtual_clock.h"

namespace trireme {

class VirtualHub;

struct VirtualLinks {
  std::vector<LinkSpeed> replicas = {LinkSpeed{}};  ///< each replica's connection; the last one stands for all that follow
  LinkSpeed server = {};                            ///< of each machine that holds shards, shared by all who visit it
  int server_machines = 1;                          ///< shard s is on machine s modulo that
};

/// What befalls the replicas. A replica that is lost leaves its exchanges to the others, if they go on.
struct VirtualFailures {
  Failures failures = {};
  bool others_go_on = false;  ///< false: a replica that never comes back ends the run
};

class VirtualWorld final : public HubWorld {
 public:
  /// `server`: null where the policy has none. It and `times` outlive this.
  VirtualWorld(int replicas, const StepTimes& times, VirtualLinks links = {}, ShardServer* server = nullptr, VirtualFailures failures = {});
  ~VirtualWorld() override;

  int replicas() const override { return int(hubs_.size()); }
  Hub& hub(int replica) override;
  void abort(const std::string& reason) override { clock_.abort(reason); }

 private:
  friend class VirtualHub;

  struct Connection {
    LinkSpeed speed;
    double out_free = 0, in_free = 0;  ///< seconds: when what goes out and comes in by then is through
  };
  struct Parked {  // owns what it refers to: after an abort its replica may be gone while another still runs
    int replica;
    Request request;
    std::optional<Reply> reply;
  };

  int machine_of(int shard) const { return replicas_ + shard % server_machines_; }
  double message(int from, int to, int64_t bytes, double now);
  /// When a collective that is ready to begin at `ready` is through; `bytes[i]` leave members[i].
  double collective(const std::vector<int>& members, const std::vector<int64_t>& bytes, int rounds, double ready);
  /// Puts the shard's parked requests again, until none is answered. `runner`: who calls.
  void offer_parked(int shard, double now, int runner);

  // All below belong to the replica that runs.
  VirtualClock clock_;
  const int replicas_;
  const int server_machines_;
  const StepTimes& times_;
  ShardServer* const server_;
  const VirtualFailures failures_;
  std::vector<Connection> connections_;  ///< by replica, then by machine of the server
  std::vector<std::vector<std::shared_ptr<Parked>>> parked_;  ///< by shard, in order of arrival
  struct Meetings;
  std::unique_ptr<Meetings> meetings_;
  std::vector<std::unique_ptr<VirtualHub>> hubs_;
};

}  // namespace trireme
