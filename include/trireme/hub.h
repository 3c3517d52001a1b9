// What replicas exchange through. One interface for replicas on threads (hub/thread_world.h), on the ranks of any
// Communicator, processes too (hub/rank_world.h), on a modelled clock (hub/virtual_world.h) and as clients that come
// and go (remote/).
//
// Two ways to meet. Collectives: all of a set of replicas call, nobody returns before the last has called. Visits: a
// replica alone asks a shard of a parameter server, one visitor at a time per shard, and waits for no other replica
// unless the server says so.
//
// A Hub is one replica's end and is used by that replica's thread only. Every operation throws a run error when another
// replica has failed. Sums are added in the order of the replicas' numbers, so that all get the same bits, whatever the
// timing and whichever the hub.
//
// Bytes are those of tensors that leave and reach this replica; numbers that travel beside them are not counted.
// Collectives count the bytes of comm/formulas.h; between processes, where they go through the server, those that
// really leave and come.
//
// Between processes a replica can be lost in the middle, and where the policy can do without it
// (UpdatePolicy::when_lost) the others go on: it is no member of collectives any more.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/replica_state.h"

namespace trireme {

/// What a replica asks of a shard, and what it is told. Tensors of a request are read during the visit only; those of a
/// reply are the replica's own.
struct Request {
  int operation = 0;  ///< the server's own numbering
  std::vector<at::Tensor> tensors = {};
  std::vector<double> numbers = {};
};
struct Reply {
  std::vector<at::Tensor> tensors = {};
  std::vector<double> numbers = {};
};

/// The shards of a parameter server. Calls for one shard exclude each other; those for different shards may come at
/// once.
class ShardServer {
 public:
  virtual ~ShardServer() = default;
  virtual int shards() const = 0;

  /// `now`: seconds on the hub's clock. Nullopt: not yet; nothing has changed, and the same request will be put again
  /// after every other visit of the shard, and at the `deadline` of that moment.
  virtual std::optional<Reply> serve(int shard, int replica, const Request& request, double now) = 0;
  /// When a request that was put off just now is to be put again even if nobody visits; infinity: never.
  virtual double deadline(int shard) const;

  // Between processes. Never while somebody visits.

  /// The replicas begin; those that are not there yet have been lost.
  virtual void start(double now) {}
  /// The replica is lost: nothing will come of it, until it is taken back.
  virtual void lose(int replica, double now) {}
  virtual void take_back(int replica, double now) {}
  /// Copies of the newest values, in the order of the state's elements, cut in any way; nullopt: there are none (yet).
  virtual std::optional<ModelValues> values() const { return std::nullopt; }
};

/// What one replica's exchanges took so far.
struct HubCounts {
  int64_t bytes_sent = 0, bytes_received = 0;
  int64_t collectives = 0, visits = 0;
  double compute_seconds = 0;   ///< between begin_step and end_step
  double idle_seconds = 0;      ///< blocked until other replicas were ready
  double exchange_seconds = 0;  ///< blocked while tensors moved
  std::vector<int64_t>
      staleness;  ///< [k]: exchanges with weights that k updates of others had passed since they were read
};

/// An exchange that goes on while the replica computes.
class Pending {
 public:
  virtual ~Pending() = default;
  /// Blocks until it is through. Of begin_average: the means. Of begin_gather: by replica, its tensor. Once. For
  /// reading only.
  virtual std::vector<at::Tensor> wait() = 0;
};

class Hub {
 public:
  virtual ~Hub() = default;
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  int replica() const { return replica_; }
  int replicas() const { return replicas_; }

  /// Whether the others had begun when this replica came (back): it takes no part in what all do together at their
  /// start.
  virtual bool came_late() const { return false; }
  /// Of what all have alike after a total over all, one replica tells the world outside: this one?
  virtual bool speaks_for_all() const { return replica_ == 0; }
  /// Of the replica's steps, that it makes first: more than 0 where it comes back.
  virtual int64_t first_step() const { return 0; }
  /// Whether the run's owner is in another process and is to be told of what happens.
  virtual bool reports() const { return false; }
  /// To the run's owner where it is in another process; not answered. Numbers of reports that follow each other with
  /// the same operation and without tensors may arrive in one.
  virtual void report(Request request) {}

  /// Before anything else, and after everything: on the virtual clock a replica runs only in between. See run_replicas.
  virtual void enter() = 0;
  virtual void leave() = 0;

  // -- collectives: the same calls in the same order by all members, with tensors of the same shapes. `members`:
  // ascending, with this
  //    replica; empty: all. Who is lost (is_lost) is no member any more

  /// Each tensor becomes its mean over the members, in place: their sum, divided by their number.
  void average(std::span<at::Tensor> tensors, std::span<const int> members = {});
  /// sum of weight_i x_i / sum of weight_i. What comes with weight 0 may be anything, NaN too. Errors (run): weights
  /// that add up to 0 or less, or to no number.
  void weighted_average(std::span<at::Tensor> tensors, double weight, std::span<const int> members = {});
  /// The sum of a number over the members: agreement, not traffic; counts no bytes and takes no time but waiting.
  virtual double total(double number, std::span<const int> members = {}) = 0;
  void barrier(std::span<const int> members = {}) { total(0, members); }

  // -- collectives of all replicas that go on meanwhile; any number at once, begun in the same order by all

  virtual std::unique_ptr<Pending> begin_average(std::vector<at::Tensor> tensors) = 0;
  /// Any shape, also one per replica.
  virtual std::unique_ptr<Pending> begin_gather(at::Tensor tensor) = 0;

  // -- the parameter server

  struct ShardRequest {
    int shard = 0;
    Request request;
  };
  /// All requests set out at once; returns when all are answered, in the order of the requests.
  virtual std::vector<Reply> visit(std::vector<ShardRequest> requests) = 0;
  Reply visit(int shard, Request request);

  // -- the clock

  virtual double now() const = 0;  ///< seconds since the hub's start
  /// Around each step's computation. The virtual clock moves on in end_step.
  virtual void begin_step() = 0;
  virtual void end_step() = 0;
  /// Whether this replica has failed for good in the step that has ended: the step has not been made, and there will be
  /// no more. Its hub takes visits still, unmetered ones.
  bool is_lost() const { return is_lost_; }

  const HubCounts& counts() const { return counts_; }
  void count_staleness(int64_t updates);

  /// While alive, this replica's exchanges take no time of the virtual or emulated links and count nothing: for
  /// evaluations and for handing out initial weights. Members of a collective all have one or none has.
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

  /// Each tensor becomes its sum over the members, in place. Returns how many have come.
  virtual int sum(std::span<at::Tensor> tensors, std::span<const int> members) = 0;

  bool metered() const { return metered_; }
  /// The members as a list, all of them where it is empty. Errors (run): not ascending, or without this replica.
  std::vector<int> checked(std::span<const int> members) const;
  HubCounts counts_;
  bool is_lost_ = false;

 private:
  const int replica_, replicas_;
  bool metered_ = true;
};

int64_t bytes_of(std::span<const at::Tensor> tensors);

class HubWorld;

/// Runs `body` for every replica, each on a thread of its own, between enter and leave. Rethrows what the first that
/// failed threw, when all have ended. Operators of each thread run on that thread alone.
void run_replicas(HubWorld& world, const std::function<void(Hub&)>& body);

/// The ends of all replicas. Thread-safe.
class HubWorld {
 public:
  virtual ~HubWorld() = default;
  virtual int replicas() const = 0;
  virtual Hub& hub(int replica) = 0;
  /// Whether this process is the server of replicas that are all in others.
  virtual bool serves() const { return false; }
  /// Whether the first replica is in this process.
  virtual bool decides() const { return true; }
  /// Seconds on the replicas' clock, of a process that serves.
  virtual double now() const { return 0; }
  /// Ends every pending and later operation of every replica with an error that carries `reason`; the first reason
  /// wins.
  virtual void abort(const std::string& reason) = 0;
  /// Why replicas in other processes can do nothing any more; empty while they can, and where there are none.
  virtual std::string abort_reason() const { return ""; }
  /// As run_replicas, for those replicas that are in this process; returns when nobody's replica works any more.
  virtual void run(const std::function<void(Hub&)>& body) { run_replicas(*this, body); }
  /// Once run is through: what the replica's exchanges took, as far as this process knows.
  virtual HubCounts counts(int replica) { return hub(replica).counts(); }
};

}  // namespace trireme
