// Replicas on a modelled clock: real mathematics, durations by model.
//
// Replicas are threads that take turns in the order of their clocks (comm/virtual/virtual_time.h), and exchange through
// the Communicators of a local world in that time. A step moves its replica's clock by what StepTimes says, an exchange
// by the links (comm/virtual/duplex_links.h): a collective takes the bytes of comm/formulas.h and the rounds of
// comm/local/emulated_links.h; requests and replies travel between the replica's connection and that of the machine
// that holds the shard. So the same seed gives the same order of events and the same bits, on any machine.
//
// What a replica computes between two calls happens at the moment its clock shows at the first of them: a step is
// computed with what its replica had when the step began.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/local/local_world.h"
#include "comm/virtual/attendance.h"
#include "update/failures.h"
#include "update/hub/shard_host.h"
#include "update/step_times.h"

namespace trireme {

class VirtualHub;

struct VirtualLinks {
  std::vector<LinkSpeed> replicas = {
      LinkSpeed{}};         ///< each replica's connection; the last one stands for all that follow
  LinkSpeed server = {};    ///< of each machine that holds shards, shared by all who visit it
  int server_machines = 1;  ///< shard s is on machine s modulo that
};

/// What befalls the replicas. A replica that is lost leaves its exchanges to the others, if they go on.
struct VirtualFailures {
  Failures failures = {};
  bool others_go_on = false;  ///< false: a replica that never comes back ends the run
};

class VirtualWorld final : public HubWorld {
 public:
  /// `server`: null where the policy has none. It and `times` outlive this.
  VirtualWorld(int replicas, const StepTimes& times, VirtualLinks links = {}, ShardServer* server = nullptr,
               VirtualFailures failures = {});
  ~VirtualWorld() override;

  int replicas() const override { return int(hubs_.size()); }
  Hub& hub(int replica) override;
  void abort(const std::string& reason) override { world_.abort(reason); }

 private:
  friend class VirtualHub;
  class VisitsOverLinks;

  /// Its connection.
  int machine_of(int shard) const { return int(hubs_.size()) + shard % server_machines_; }
  void fail_if_aborted(int replica) const;

  const int server_machines_;
  const StepTimes& times_;
  const VirtualFailures failures_;
  const std::shared_ptr<VirtualTime> time_;
  LocalWorld world_;   ///< takes no time but waiting
  DuplexLinks links_;  ///< by replica, then by machine of the server
  Attendance attendance_;
  std::optional<ShardHost> host_;
  std::vector<std::unique_ptr<VirtualHub>> hubs_;
};

}  // namespace trireme
