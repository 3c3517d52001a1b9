// The hubs of all replicas of a run, and how the replicas of a process run on them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "trireme/hub.h"

namespace trireme {

class FlightRecorder;

/// Returns the bytes of all defined tensors.
int64_t bytes_of(std::span<const at::Tensor> tensors);

class HubWorld;

/// Runs `body` for every replica, each on its own thread, between enter and leave. Waits for all, then rethrows the
/// first failure. Each thread runs its operators alone (one operator thread).
void run_replicas(HubWorld& world, const std::function<void(Hub&)>& body);

/// The hubs of all replicas. Thread-safe.
class HubWorld {
 public:
  virtual ~HubWorld() = default;
  virtual int replicas() const = 0;
  virtual Hub& hub(int replica) = 0;
  /// True if this process is the server and all replicas are in other processes.
  virtual bool serves() const { return false; }
  /// True if the first replica is in this process.
  virtual bool decides() const { return true; }
  /// Seconds on the replicas' clock, in a process that serves.
  virtual double now() const { return 0; }
  /// Ends every pending and later operation of every replica with an error that contains `reason`. The first reason is
  /// kept.
  virtual void abort(const std::string& reason) = 0;
  /// Why replicas in other processes can no longer work. Empty while they can, and if there are none.
  virtual std::string abort_reason() const { return ""; }
  /// The recorder of this process; null: no process reads it.
  virtual FlightRecorder* recorder() { return nullptr; }
  /// As run_replicas, for the replicas in this process. Returns when no replica works any more.
  virtual void run(const std::function<void(Hub&)>& body) { run_replicas(*this, body); }
  /// After run() has returned: the counts of the replica's exchanges, as far as this process knows them.
  virtual HubCounts counts(int replica) { return hub(replica).counts(); }
};

}  // namespace trireme
