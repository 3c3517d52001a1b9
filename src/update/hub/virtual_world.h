// Replicas on a modelled clock: real mathematics, modelled durations.
//
// Replicas are threads that take turns in the order of their clocks (comm/virtual/virtual_time.h) and exchange through
// the Communicators of a local world in that time. A step advances its replica's clock by StepTimes, an exchange by the
// links (comm/virtual/duplex_links.h). A collective takes the bytes of comm/formulas.h and the rounds of
// comm/local/emulated_links.h. Requests and replies travel between the replica's connection and that of the machine
// that holds the shard. So the same seed gives the same order of events and the same bits on any machine.
//
// A replica's computation between two calls happens at the time that its clock shows at the first of them: a step uses
// the values that the replica had when the step began.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/local/local_world.h"
#include "comm/virtual/attendance.h"
#include "update/failures.h"
#include "update/hub/hub_world.h"
#include "update/hub/shard_host.h"
#include "update/step_times.h"

namespace trireme {

class VirtualHub;

struct VirtualLinks {
  std::vector<LinkSpeed> replicas = {
      LinkSpeed{}};         ///< each replica's connection; the last one also applies to all further replicas
  LinkSpeed server = {};    ///< connection of each machine that holds shards, shared by all its visitors
  int server_machines = 1;  ///< shard s is on machine s modulo this number
};

/// Simulated failures of replicas. If the others continue, their exchanges complete without a lost replica.
struct VirtualFailures {
  Failures failures = {};
  bool others_go_on = false;  ///< false: a replica that never returns ends the run
};

class VirtualWorld final : public HubWorld {
 public:
  /// `server`: null if the policy has none. It and `times` must outlive this object.
  VirtualWorld(int replicas, const StepTimes& times, VirtualLinks links = {}, ShardServer* server = nullptr,
               VirtualFailures failures = {});
  ~VirtualWorld() override;

  int replicas() const override { return int(hubs_.size()); }
  Hub& hub(int replica) override;
  void abort(const std::string& reason) override { world_.abort(reason); }

  /// Lets time pass for a replica: for what it computes beside its steps. Call it on the replica's thread.
  void compute(int replica, double seconds);

 private:
  friend class VirtualHub;
  class VisitsOverLinks;

  /// Returns the connection of the machine that holds the shard.
  int machine_of(int shard) const { return int(hubs_.size()) + shard % server_machines_; }
  void fail_if_aborted(int replica) const;

  const int server_machines_;
  const StepTimes& times_;
  const VirtualFailures failures_;
  const std::shared_ptr<VirtualTime> time_;
  LocalWorld world_;   ///< only waits take time in it
  DuplexLinks links_;  ///< by replica, then by machine of the server
  Attendance attendance_;
  std::optional<ShardHost> host_;
  std::vector<std::unique_ptr<VirtualHub>> hubs_;
};

}  // namespace trireme
