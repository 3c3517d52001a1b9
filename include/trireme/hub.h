// How replicas exchange data. One interface for replicas on threads, on the ranks of any Communicator including
// processes, on a modelled clock, and as clients that join and leave.
//
// There are two kinds of exchange. Collectives: all replicas of a set call, and none returns before the last has
// called. Visits: a single replica sends a request to a shard of a parameter server, one visitor at a time per shard,
// and does not wait for other replicas unless the server requires it.
//
// A Hub is one replica's end and is used by that replica's thread only. Every operation throws a run error if another
// replica has failed. Sums are added in the order of the replicas' numbers, so that all replicas get the same bits,
// whatever the timing and the kind of hub.
//
// Counted bytes are those of tensors that leave and reach this replica; numbers sent with them are not counted.
// Collectives count the bytes that CommunicationCount (communicator.h) defines. Between processes collectives go
// through the server and count the bytes that are really sent and received.
//
// Between processes a replica can be lost in the middle. If the policy can continue without it
// (UpdatePolicy::when_lost), the other replicas do, and it is no longer a member of collectives.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trireme {

// -- what a policy exchanges. A replica is a group of workers that runs a plan on its own share of the samples, with
// weights of its own. A policy sees flat tensors; the plan inside does not matter. All replicas of a run are cut in the
// same way.

/// A batch norm's running statistics, both [channels], in the dtype in which the layer keeps them.
struct RunningStatistics {
  at::Tensor mean, variance;
};

/// Weights [rows, width], for example of an embedding, of which a step reads and changes only the rows in
/// StepFacts::rows.
struct RowTable {
  size_t bucket = 0;   ///< index in ReplicaState::weights
  int64_t offset = 0;  ///< position of row 0 in the bucket
  int64_t rows = 0, width = 0;
};

/// Elements of the weights that are no parameter's: parameters begin at aligned places. They are 0 and stay so.
struct WeightPadding {
  size_t bucket = 0;                 ///< index in ReplicaState::weights
  int64_t offset = 0, elements = 0;  ///< in the bucket
};

/// Tensors are the replica's own memory, shared with the creator of this object. Policies write in place, between two
/// steps, on the thread that calls them, and never replace a tensor. Contiguous, float or double.
struct ReplicaState {
  /// Master values, flat, by bucket (a flat buffer of parameters, or a worker's slice of one).
  std::vector<at::Tensor> weights;
  /// By bucket: the optimizer's state tensors, each as long as the bucket's weights. None if the optimizer has none
  /// (yet).
  std::vector<std::vector<at::Tensor>> moments;
  std::vector<RunningStatistics> statistics;  ///< by batch norm
  std::vector<RowTable> tables = {};          ///< sorted by bucket and offset; none unless UpdatePolicy::takes_rows
  std::vector<WeightPadding> padding = {};    ///< all of it, sorted by bucket and offset
  /// Makes the local optimizer begin anew: the moments and the count of its steps (Adam's bias correction) are those
  /// before its first step. Empty: the moments are all that it has.
  std::function<void()> restart_optimizer = {};
};

/// What of a ReplicaState stays with its replica, where UpdatePolicy::local_parameters names something.
struct LocalParts {
  /// Consecutive elements of the weights.
  struct Run {
    size_t bucket = 0;  ///< index in ReplicaState::weights
    int64_t offset = 0, elements = 0;
    bool is_local = false;
  };
  std::vector<Run> runs;         ///< all elements of all weights, in their order; no run is empty
  std::vector<bool> statistics;  ///< by batch norm: true if local
};

/// The values for an evaluation: memory of its own, cut like the ReplicaState that was passed.
struct ModelValues {
  std::vector<at::Tensor> weights;
  std::vector<RunningStatistics> statistics;
};

ModelValues copy_of(const ModelValues& values);
/// Returns copies of the state's weights and running statistics.
ModelValues values_of(const ReplicaState& state);
/// Writes the values into the state. Weights may be cut differently from the state's; only the order of elements
/// matters.
void write_values(const ModelValues& values, ReplicaState& state);

// -- how replicas exchange it

/// A replica's request to a shard, and the reply. Tensors of a request are read only during the visit. Tensors of a
/// reply are the replica's own memory.
struct Request {
  int operation = 0;  ///< the server's own numbering
  std::vector<at::Tensor> tensors = {};
  std::vector<double> numbers = {};
};
struct Reply {
  std::vector<at::Tensor> tensors = {};
  std::vector<double> numbers = {};
};

/// The shards of a parameter server. Calls for one shard exclude each other; calls for different shards may be
/// concurrent.
class ShardServer {
 public:
  virtual ~ShardServer() = default;
  virtual int shards() const = 0;

  /// `now`: seconds on the hub's clock. Returns nullopt to make the request wait: then nothing has changed, and the
  /// same request is passed again after every other visit of the shard and at the time of deadline().
  virtual std::optional<Reply> serve(int shard, int replica, const Request& request, double now) = 0;
  /// Returns the time at which a waiting request is passed again even without a visit; infinity: never.
  virtual double deadline(int shard) const;

  // The following are called between processes only, and never during a visit. `now` as above.

  /// Called once, when the replicas begin. Replicas that are not present yet count as lost.
  virtual void start(double /*now*/) {}
  /// Called when a replica is lost. Nothing arrives from it until readmit.
  virtual void lose(int /*replica*/, double /*now*/) {}
  /// Called when a lost replica has returned.
  virtual void readmit(int /*replica*/, double /*now*/) {}
  /// Returns copies of the newest values, in the order of the state's elements, cut in any way; nullopt if there are
  /// none (yet).
  virtual std::optional<ModelValues> values() const { return std::nullopt; }
};

/// Counts and times of one replica's exchanges so far.
struct HubCounts {
  int64_t bytes_sent = 0, bytes_received = 0;
  int64_t collectives = 0, visits = 0;
  double compute_seconds = 0;      ///< between begin_step and end_step
  double idle_seconds = 0;         ///< blocked until other replicas were ready
  double exchange_seconds = 0;     ///< blocked while tensors were transferred
  std::vector<int64_t> staleness;  ///< [k]: number of exchanges with weights that were k updates of other replicas old
};

/// An exchange that runs while the replica computes.
class Pending {
 public:
  virtual ~Pending() = default;
  /// Blocks until the exchange has finished. Returns the means (begin_average) or every replica's tensor, by replica
  /// (begin_gather). The tensors are the caller's own memory. Call it once.
  virtual std::vector<at::Tensor> wait() = 0;
};

class Hub {
 public:
  virtual ~Hub() = default;
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  int replica() const { return replica_; }
  int replicas() const { return replicas_; }

  /// True if this replica joined, or returned, after the other replicas had begun. It then skips what all replicas do
  /// together at the start.
  virtual bool joined_late() const { return false; }
  /// True on one replica: the one that reports values which are equal on all replicas (after a total over all).
  virtual bool reports_for_all() const { return replica_ == 0; }
  /// Number of the first step that this replica makes: more than 0 if it has returned after a loss.
  virtual int64_t first_step() const { return 0; }
  /// True if the run's owner is in another process and must receive reports.
  virtual bool reports() const { return false; }
  /// Sends a report to the run's owner in another process, without waiting for an answer. Numbers of consecutive
  /// reports with the same operation and without tensors may arrive as one report.
  virtual void report(Request /*request*/) {}
  /// Waits until the run's owner has taken all reports, if it answers them.
  virtual void confirm_reports() {}
  /// Returns the newest number with which the run's owner has answered a report: that of an earlier report, or after
  /// confirm_reports that of the last one. 0: no answer yet.
  virtual int64_t announced() const { return 0; }

  /// The first and the last call on a hub, made by the run. On a modelled clock a replica runs only in between.
  virtual void enter() = 0;
  virtual void leave() = 0;

  // -- collectives: all members make the same calls in the same order, with tensors of the same shapes. `members`:
  // ascending, including this replica; empty: all. A lost replica (is_lost) is no longer a member.

  /// Replaces each tensor by its mean over the members, in place: the sum divided by the number of members.
  void average(std::span<at::Tensor> tensors, std::span<const int> members = {});
  /// Replaces each tensor by sum of weight_i x_i / sum of weight_i. Tensors with weight 0 may hold anything, including
  /// NaN. Throws a run error if the weights' sum is not a number greater than 0.
  void weighted_average(std::span<at::Tensor> tensors, double weight, std::span<const int> members = {});
  /// Returns the sum of a number over the members. It counts as no traffic: it has no bytes and takes no time except
  /// waiting.
  virtual double total(double number, std::span<const int> members = {}) = 0;
  void barrier(std::span<const int> members = {}) { total(0, members); }
  /// Returns each member's tensor, in the order of the members, as the caller's own memory. A tensor may be of any
  /// dtype that communicators gather, bytes among them.
  virtual std::vector<at::Tensor> gather(const at::Tensor& tensor, std::span<const int> members = {}) = 0;

  // -- collectives of all replicas that run in the background; any number at once, begun in the same order by all. The
  // hub takes the tensors: the caller must not use their memory from now on.

  virtual std::unique_ptr<Pending> begin_average(std::vector<at::Tensor> tensors) = 0;
  /// The tensors' shapes may differ between replicas.
  virtual std::unique_ptr<Pending> begin_gather(at::Tensor tensor) = 0;

  // -- the parameter server

  struct ShardRequest {
    int shard = 0;
    Request request;
  };
  /// Sends all requests at once. Returns the replies when all have arrived, in the order of the requests.
  virtual std::vector<Reply> visit(std::vector<ShardRequest> requests) = 0;
  Reply visit(int shard, Request request);

  // -- the clock

  virtual double now() const = 0;  ///< seconds since the hub's start
  /// Call them around each step's computation. A modelled clock advances in end_step.
  virtual void begin_step() = 0;
  virtual void end_step() = 0;
  /// True if this replica has failed for good in the last step: that step was not made, and there will be no more. Its
  /// hub still accepts unmetered visits.
  bool is_lost() const { return is_lost_; }

  const HubCounts& counts() const { return counts_; }
  void count_staleness(int64_t updates);

  /// While it exists, this replica's exchanges take no time on modelled or emulated links and count nothing. For
  /// evaluations and for distributing initial weights. In a collective, all members must use it or none.
  class Unmetered {
   public:
    explicit Unmetered(Hub& hub) : hub_(hub), before_(hub.metered_) { hub.metered_ = false; }
    ~Unmetered() { hub_.metered_ = before_; }
    Unmetered(const Unmetered&) = delete;
    Unmetered& operator=(const Unmetered&) = delete;

   private:
    Hub& hub_;
    const bool before_;
  };

 protected:
  Hub(int replica, int replicas) : replica_(replica), replicas_(replicas) {}

  /// Replaces each tensor by its sum over the members, in place. Returns how many members took part.
  virtual int sum(std::span<at::Tensor> tensors, std::span<const int> members) = 0;

  bool metered() const { return metered_; }
  /// Returns the members as a list; all if it is empty. Throws a run error if they are not ascending or lack this
  /// replica.
  std::vector<int> checked(std::span<const int> members) const;
  HubCounts counts_;
  bool is_lost_ = false;

 private:
  const int replica_, replicas_;
  bool metered_ = true;
};

}  // namespace trireme
