// A parameter server that holds one copy of the weights, cut into shards, and its clients in the replicas.
//
// All weights of a state, bucket after bucket, are one range of elements. Shard s has chunk s of it (chunk_elements of
// comm/formulas.h), which may span several buckets; the pieces are the shard's parts. Running statistics are in shard
// 0.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/config.h"
#include "trireme/hub.h"
#include "trireme/policy.h"
#include "update/codec.h"
#include "update/error_feedback.h"
#include "update/padding.h"

namespace trireme {

/// What a shard holds. Tensors are the server's own memory.
struct CentralShard {
  std::vector<at::Tensor> weights;            ///< by part
  std::vector<Padding> padding;               ///< of the weights, by part
  std::vector<RunningStatistics> statistics;  ///< shard 0 only
  int64_t version = 0;                        ///< updates so far
  bool has_begun = false;                     ///< true once it has taken a replica's initial values
};

/// A replica's decoded request to a shard. Tensors are the replica's memory.
struct CentralRequest {
  int operation = 0;
  std::span<const at::Tensor> parts;          ///< one per part of the shard's weights, or none
  std::vector<RunningStatistics> statistics;  ///< as many as the shard's statistics, or none
  int64_t version_read = 0;                   ///< version of the shard's weights that the replica has read last
  std::span<const double> numbers;            ///< the policy's own numbers
  bool is_used = true;  ///< apply() sets it to false if the request's values are not in the weights and never will be

  /// Returns one of the numbers. Throws a run error if there are fewer or if it is not finite.
  double number(size_t index) const;
  /// As number(). Also throws a run error if it is not an integer.
  int64_t whole_number(size_t index) const;
};

/// Thread-safe, as ShardServer requires. Subclasses define the update. A request that does not fit the shard is a run
/// error and changes nothing: clients may be programs of other parties.
class CentralServer : public ShardServer {
 public:
  /// The value of UpdatePolicy::stops() for policies that use this server.
  static constexpr UpdatePolicy::Stops kStops = UpdatePolicy::Stops::anywhere;
  /// `codec`: of the tensors that requests of subclasses bring; nullopt: they are not encoded.
  explicit CentralServer(int shards, std::optional<Codec> codec = std::nullopt)
      : codec_(codec), shards_(size_t(shards)), saved_(size_t(shards)), known_(size_t(shards)) {}
  int shards() const final { return int(shards_.size()); }
  std::optional<ModelValues> values() const override;
  std::optional<Reply> serve(int shard, int replica, const Request& request, double now) final;

  /// See UpdatePolicy::hold and go_on.
  void hold(bool holds) { holds_ = holds; }

  /// See UpdatePolicy::fields. The values of shards are restored when the first replica begins, because only then the
  /// cut of its weights is known.
  void fields(StateFields& fields, double now);

 protected:
  static constexpr int kFirstOperation = 5;   ///< operations of subclasses start here
  static constexpr int kFirstOfOthers = 100;  ///< operations from here on are those of serve_other

  /// Save or restore the state of a subclass beside weights, running statistics and versions. server_fields: values of
  /// the server; shard_fields: tensors of a shard, whose weights already exist.
  virtual void server_fields(StateFields& fields, double now) {}
  virtual void shard_fields(StateFields& fields, int index, CentralShard& shard) {}
  /// Called if the server was resumed from a state but this replica was not: the replica's unfinished work is lost.
  virtual void begin_anew(int replica) {}
  /// True if no request may wait for other replicas.
  bool holds() const { return holds_; }

  /// True for policies whose replicas send weights (SentWeights). An encoded request brings the change of the weights
  /// since the replica's last exchange. So a shard stores, for each replica, the weights after that exchange.
  virtual bool takes_weights() const { return false; }
  /// Stores the weights of a replica after an exchange, if knows_replicas(). `weights` become the server's own.
  void set_known(int index, int replica, std::vector<at::Tensor> weights);
  /// True if shards store the replicas' weights: requests are encoded, and replicas send weights.
  bool knows_replicas() const { return codec_ && takes_weights(); }
  /// Returns a - b, by part.
  static std::vector<at::Tensor> differences(std::span<const at::Tensor> a, std::span<const at::Tensor> b);

  /// See ShardServer::serve. A change of weights must increase `version` by 1. The returned tensors must be memory that
  /// the replica may own.
  virtual std::optional<Reply> apply(CentralShard& shard, int index, int replica, CentralRequest& request,
                                     double now) = 0;
  /// Answers a request whose tensors are not cut like the weights. The replica sends it by Hub::visit; request and
  /// reply have no header.
  virtual Reply serve_other(const CentralShard& shard, int replica, const Request& request);
  /// Throws a run error: the request of `replica` is not valid, for the reason `why`.
  [[noreturn]] static void refuse_request(int replica, std::string why);

  static std::vector<at::Tensor> copies_of_weights(const CentralShard& shard);
  /// The same, followed by copies of the statistics, as a reply has them.
  static std::vector<at::Tensor> copies_of_values(const CentralShard& shard);
  /// Throws a run error unless the request has a value for every weight and statistic of the shard.
  static void check_brings_all(const CentralShard& shard, const CentralRequest& request);

 private:
  friend class CentralClient;
  static constexpr int kStart = 0, kRead = 1, kReadAll = 2, kBeginAnew = 3, kNothing = 4;

  void begin_shard(int index, int replica, std::span<const at::Tensor> weights, std::span<const at::Tensor> statistics,
                   std::span<const double> padding);
  void fields_of_shard(StateFields& fields, int index);
  void known_fields(StateFields& fields, int index);
  /// Returns the request's tensors with its first `parts` decoded. Throws a run error if they are no code of the shard.
  std::vector<at::Tensor> decoded(int index, int replica, std::vector<at::Tensor> tensors, size_t parts) const;

  struct Known {
    std::vector<at::Tensor> at_start;                 ///< what all replicas began with
    std::map<int, std::vector<at::Tensor>> replicas;  ///< by replica, once it has exchanged
  };

  const std::optional<Codec> codec_;
  std::vector<CentralShard> shards_;
  std::vector<std::shared_ptr<const PolicyState>>
      saved_;                 ///< by shard: the state to resume from, until the shard has begun; null: none
  std::vector<Known> known_;  ///< by shard; empty without a codec, or if replicas do not send weights
  bool goes_on_ = false;      ///< resumed from a state; set before any visit
  std::atomic<bool> holds_ = false;
};

/// A replica's client of a CentralServer. Used by the replica's thread only.
class CentralClient {
 public:
  CentralClient(Hub& hub, int shards) : hub_(hub), shards_(shards), versions_(size_t(shards)) {}

  /// All replicas call it first. The values of the first replica become the server's. A replica that arrives late
  /// begins with the server's values. So does a replica that was not resumed (`resumes` false) if the server was
  /// resumed. Unmetered. Returns true if the replica begins with the values of a server that has begun before. Throws a
  /// run error if only the replica was resumed.
  bool begin(ReplicaState& state, bool resumes);
  /// An empty visit: after it the server retries waiting requests.
  void release_waiting();
  /// Saves or restores which versions of the weights it has read, and its own updates since then.
  void fields(StateFields& fields);

  struct Call {
    int operation = 0;
    std::span<const at::Tensor> tensors = {};            ///< cut like the weights; empty: none are sent
    ErrorFeedback* feedback = nullptr;                   ///< encodes the tensors; null: they are sent as they are
    std::span<const RunningStatistics> statistics = {};  ///< empty: none are sent
    std::vector<double> numbers = {};                    ///< sent to each shard
    /// one further number for each shard, after `numbers`; empty: none
    std::span<const double> of_shards = {};
    bool reads = false;  ///< the reply contains the newest weights; staleness counts the updates of others from here
  };
  using Take = std::function<void(at::Tensor& mine, const at::Tensor& told)>;
  /// Visits all shards. Calls `take` with each part of `into` (cut like the weights) and the shard's reply for it.
  /// Returns each shard's numbers. Statistics in shard 0's reply are written to `statistics`, if that is not empty.
  std::vector<std::vector<double>> exchange(const Call& call, std::span<at::Tensor> into, const Take& take,
                                            std::span<RunningStatistics> statistics = {});

  /// Reads the newest weights. Staleness counts from here.
  void fetch(std::span<at::Tensor> weights);

  /// Returns the server's newest values, without affecting counts or staleness. For evaluations.
  ModelValues read(const ReplicaState& state);

 private:
  struct Part {
    size_t bucket;
    int64_t offset, elements;
    Padding padding;
  };
  std::vector<at::Tensor> parts_of(int shard, std::span<const at::Tensor> tensors) const;
  std::vector<double> padding_of(int shard) const;
  void count_staleness(int64_t before, int64_t version, bool is_used, bool reads);

  Hub& hub_;
  const int shards_;
  std::vector<std::vector<Part>> layout_;  ///< by shard
  std::vector<int64_t> versions_;          ///< by shard: version of the weights that were read last
  int64_t own_updates_ = 0;                ///< of shard 0, since it was read
};

/// A client of a server whose values are used for evaluations.
class CentralReplica : public ReplicaPolicy {
 public:
  void begin(ReplicaState& state) override { client_.begin(state, resumes()); }
  ModelValues values_for_evaluation(ReplicaState& state) override { return client_.read(state); }

 protected:
  CentralReplica(Hub& hub, int shards) : ReplicaPolicy(hub), client_(hub, shards) {}
  /// For finish: waits for all replicas, then takes the server's values, which are the run's result.
  void take_result(ReplicaState& state) {
    hub_.barrier();
    client_.fetch(state.weights);
    write_values(client_.read(state), state);
  }

  CentralClient client_;
};

/// A policy that consists of a server and its clients. Constructors: Server(options, replicas), Replica(options, hub).
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
      return options_.warm_start + 1;  // until then the other replicas wait for replica 0
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

/// Reads the option "shards": the number of servers that the weights are divided over, at most kMaxDevices. Errors
/// (user): as ConfigTable's.
int read_shards(const ConfigTable& update, int fallback);

}  // namespace trireme
