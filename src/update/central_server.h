// A parameter server that holds one copy of the weights, cut into shards, and the replicas' way of communicating with
// it.
//
// All weights of a state, bucket after bucket, are one range of elements; shard s has chunk s of it (chunk_elements of
// comm/formulas.h), which may lie in several buckets: its parts. Running statistics are with shard 0.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "trireme/config.h"
#include "trireme/hub.h"
#include "trireme/policy.h"
#include "trireme/replica_state.h"

namespace trireme {

/// What a shard holds. Tensors are the server's own.
struct CentralShard {
  std::vector<at::Tensor> weights;            ///< by part
  std::vector<RunningStatistics> statistics;  ///< shard 0 only
  int64_t version = 0;                        ///< updates so far
  bool has_begun = false;                     ///< a replica's values have become its own
};

/// What a replica says to a shard, taken apart. Tensors are the replica's.
struct CentralRequest {
  int operation = 0;
  std::span<const at::Tensor> parts;          ///< as many as the shard's weights, or none
  std::vector<RunningStatistics> statistics;  ///< as many as the shard's, or none
  int64_t version_read = 0;                   ///< of the shard's weights when the replica last read them
  std::span<const double> numbers;            ///< the policy's
  bool is_used = true;  ///< apply says no where what the request brought is not in the weights, and never will be

  /// Errors (run): there are fewer; it is not finite.
  double number(size_t index) const;
  /// Errors (run) also: it is not whole.
  int64_t whole_number(size_t index) const;
};

/// Thread-safe, as ShardServer says. Subclasses say what an update is. A request that does not fit the shard is a run
/// error, and changes nothing: replicas may be programs of others.
class CentralServer : public ShardServer {
 public:
  static constexpr UpdatePolicy::Stops kStops = UpdatePolicy::Stops::anywhere;  ///< of a policy with it
  explicit CentralServer(int shards) : shards_(size_t(shards)), saved_(size_t(shards)) {}
  int shards() const final { return int(shards_.size()); }
  std::optional<ModelValues> values() const final;
  std::optional<Reply> serve(int shard, int replica, const Request& request, double now) final;

  /// As UpdatePolicy::hold and go_on.
  void hold(bool holds) { holds_ = holds; }

  /// As UpdatePolicy::fields. What belongs to shards is copied in when a replica begins: only then it is known how its
  /// weights are cut.
  void fields(StateFields& fields, double now);

 protected:
  static constexpr int kFirstOperation = 5;  ///< of subclasses

  /// Beyond weights, running statistics and versions: values of the server, and tensors of a shard, whose weights are
  /// there.
  virtual void server_fields(StateFields& fields, double now) {}
  virtual void shard_fields(StateFields& fields, int index, CentralShard& shard) {}
  /// The server goes on from a state, and this replica has nothing to go on from: what it had under way is lost.
  virtual void begin_anew(int replica) {}
  /// Whether nobody is to wait for others.
  bool holds() const { return holds_; }

  /// As ShardServer::serve. Where weights change, version does by 1. What it returns as tensors is the replica's own
  /// memory.
  virtual std::optional<Reply> apply(CentralShard& shard, int index, int replica, CentralRequest& request,
                                     double now) = 0;

  static std::vector<at::Tensor> copies_of_weights(const CentralShard& shard);
  /// Errors (run): the request does not bring a value for every weight and statistic of the shard.
  static void check_brings_all(const CentralShard& shard, const CentralRequest& request);

 private:
  friend class CentralClient;
  static constexpr int kStart = 0, kRead = 1, kReadAll = 2, kBeginAnew = 3, kNothing = 4;

  void begin_shard(int index, std::span<const at::Tensor> weights, std::span<const at::Tensor> statistics);
  void fields_of_shard(StateFields& fields, int index);

  std::vector<CentralShard> shards_;
  std::vector<std::shared_ptr<const PolicyState>>
      saved_;             ///< by shard: what it goes on from, until it has begun; null: nothing
  bool goes_on_ = false;  ///< from a state; since before any visit
  std::atomic<bool> holds_ = false;
};

/// A replica's end. Belongs to its thread.
class CentralClient {
 public:
  CentralClient(Hub& hub, int shards) : hub_(hub), shards_(shards), versions_(size_t(shards)) {}

  /// All replicas call it first: the values of the first of them become the server's. One that comes late begins with
  /// the server's, and so does one that has nothing to go on from (`resumes`) where the server goes on from a state.
  /// Unmetered. Errors (run): only the replica does.
  void begin(ReplicaState& state, bool resumes);
  /// A visit without consequences, but that those that wait are asked again.
  void release_waiting();
  /// Of which versions its weights are.
  void fields(StateFields& fields) { fields.value("versions read", versions_); }

  struct Call {
    int operation = 0;
    std::span<const at::Tensor> tensors = {};            ///< cut like the weights; empty: none go
    std::span<const RunningStatistics> statistics = {};  ///< empty: none go
    std::vector<double> numbers = {};                    ///< to each shard
    std::span<const double> of_shards = {};              ///< one more number for each shard, after those; empty: none
    bool reads = false;  ///< the reply brings the newest weights: staleness counts from here
  };
  using Take = std::function<void(at::Tensor& mine, const at::Tensor& told)>;
  /// Visits all shards. `take` is called with each part of `into` (cut like the weights) and what the shard replied for
  /// it. Returns each shard's numbers. Statistics in shard 0's reply are written to `statistics`, if not empty.
  std::vector<std::vector<double>> exchange(const Call& call, std::span<at::Tensor> into, const Take& take,
                                            std::span<RunningStatistics> statistics = {});

  /// The newest weights; staleness counts from here.
  void fetch(std::span<at::Tensor> weights);

  /// The server's newest values, without a trace: what an evaluation uses.
  ModelValues read(const ReplicaState& state);

 private:
  struct Part {
    size_t bucket;
    int64_t offset, elements;
  };
  std::vector<at::Tensor> parts_of(int shard, std::span<const at::Tensor> tensors) const;

  Hub& hub_;
  const int shards_;
  std::vector<std::vector<Part>> layout_;  ///< by shard
  std::vector<int64_t> versions_;          ///< by shard: of the weights that were read last
};

/// A client of a server whose values are those that evaluations use.
class CentralReplica : public ReplicaPolicy {
 public:
  void begin(ReplicaState& state) override { client_.begin(state, resumes()); }
  ModelValues values_for_evaluation(ReplicaState& state) override { return client_.read(state); }

 protected:
  CentralReplica(Hub& hub, int shards) : ReplicaPolicy(hub), client_(hub, shards) {}
  /// In finish: the server's values are the run's result, when all replicas have come so far.
  void take_result(ReplicaState& state) {
    hub_.barrier();
    client_.fetch(state.weights);
    write_values(client_.read(state), state);
  }

  CentralClient client_;
};

/// A policy that is a server and its clients. Server(options, replicas), Replica(options, hub).
template <class Server, class Replica, class Options>
class CentralPolicy final : public UpdatePolicy {
 public:
  CentralPolicy(const Options& options, int replicas) : options_(options), server_(options, replicas) {}
  std::string description() const override { return options_.description(); }
  ShardServer* server() override { return &server_; }
  WhenLost when_lost() const override { return WhenLost::goes_on; }
  Stops stops() const override { return Server::kStops; }
  int64_t steps_before_stops() const override {
    if constexpr (requires { options_.warm_start; })
      return options_.warm_start + 1;  // until then the others wait for replica 0
    return 1;
  }
  void hold() override { server_.hold(true); }
  void go_on() override { server_.hold(false); }
  std::unique_ptr<ReplicaPolicy> for_replica(Hub& hub) override { return std::make_unique<Replica>(options_, hub); }

 protected:
  void fields(StateFields& fields, double now) override { server_.fields(fields, now); }

 private:
  const Options options_;
  Server server_;
};

/// The option "shards": servers that the weights are divided over, at most kMaxDevices. Errors (user): as
/// ConfigTable's.
int read_shards(const ConfigTable& update, int fallback);

}  // namespace trireme
