#include "update/federated.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <optional>

#include "base/mutex.h"
#include "base/random.h"
#include "trireme/error.h"
#include "update/cadence.h"
#include "update/central_server.h"
#include "update/registry.h"
#include "update/statistics.h"

namespace trireme {
namespace {

/// Sum of the clients' answers in a round, in double, so that the order of arrival does not affect the weights visibly.
struct RoundSum {
  double samples = 0;
  std::vector<at::Tensor> updates;            ///< samples * update, by part
  std::vector<RunningStatistics> statistics;  ///< of all samples so far

  void add(std::span<const at::Tensor> update, double scale, std::span<const RunningStatistics> client_statistics,
           double n) {
    if (samples == 0) {
      updates.clear();
      for (const at::Tensor& part : update) updates.push_back(at::zeros_like(part));
      statistics = copies_of(client_statistics);
    }
    samples += n;
    for (size_t p = 0; p < update.size(); ++p) updates[p].add_(update[p], scale * n);
    mix_statistics(statistics, client_statistics, n / samples);
  }

  void fields(StateFields& fields, std::span<const at::Tensor> weights) {
    fields.value("round sum samples", samples);
    fields.weights_if_any("round sum", updates, weights, at::kDouble);
    fields.statistics("round sum", statistics);
  }
};

/// Requests: `join` waits until the client works in the open round; its reply has the outcome, the round and the
/// weights. `answer` (round, samples) brings the client's update. `leave`: the client takes no further part. `return`:
/// it takes part again.
class FederatedServer final : public CentralServer {
 public:
  enum Joined { kWorks, kIsOver, kIsHeld };
  static constexpr int kJoin = kFirstOperation, kAnswer = kFirstOperation + 1, kLeave = kFirstOperation + 2,
                       kReturn = kFirstOperation + 3;

  FederatedServer(const FederatedOptions& options, const FederatedPolicy& policy)
      : CentralServer(1), options_(options), policy_(policy), rounds_(options.rounds), optimizer_(options.server) {}

  double deadline(int) const override { return rounds_.deadline(); }
  /// A round that was open in the resumed state remains open.
  void start(double now) override {
    if (resumed_) rounds_.delay(now - *resumed_);
    else rounds_.start(now);
  }
  void lose(int client, double) override { rounds_.lose(client); }
  void readmit(int client, double now) override { rounds_.readmit(client, now); }

  void stop() { stops_ = true; }

  std::vector<RoundRecord> records() const {
    MutexLock lock(mutex_);
    return records_;
  }

 protected:
  std::optional<Reply> apply(CentralShard& shard, int, int client, CentralRequest& request, double now) override {
    while (rounds_.is_complete(now)) end_round(shard, now);
    if (request.operation == kJoin) return join(shard, client);
    if (request.operation == kLeave) rounds_.leave(client);
    if (request.operation == kReturn) rounds_.come_back(client, now);
    if (request.operation == kAnswer) {
      check_brings_all(shard, request);
      const double samples = request.number(1);
      request.is_used = rounds_.answer(client, request.whole_number(0)) && take(client, request, samples);
    }
    while (rounds_.is_complete(now)) end_round(shard, now);
    return Reply{};
  }

  void server_fields(StateFields& fields, double now) override {
    rounds_.fields(fields, now);
    bool stops = stops_;
    fields.value("rounds stop", stops);
    stops_ = stops && !fields.reads();  // a resumed run decides again when it is long enough
    if (fields.reads()) rounds_.reopen();
    if (fields.reads()) resumed_ = now;
    MutexLock lock(mutex_);
    record_fields(fields, "rounds over: ", records_);
  }
  void shard_fields(StateFields& fields, int, CentralShard& shard) override {
    sum_.fields(fields, shard.weights);
    optimizer_.fields(fields, shard.weights);
  }
  void begin_anew(int client) override { rounds_.begin_anew(client); }

 private:
  std::optional<Reply> join(const CentralShard& shard, int client) {
    if (rounds_.is_over()) return Reply{.numbers = {kIsOver, 0}};
    if (holds()) return Reply{.numbers = {kIsHeld, 0}};
    if (!rounds_.may_begin(client)) return std::nullopt;
    rounds_.begin(client);
    Reply reply{.tensors = copies_of_weights(shard), .numbers = {kWorks, double(rounds_.round())}};
    for (at::Tensor& tensor : tensors_of(copies_of(shard.statistics))) reply.tensors.push_back(std::move(tensor));
    return reply;
  }

  /// Returns true if the update becomes part of the round.
  bool take(int client, const CentralRequest& request, double samples) {
    std::vector<at::Tensor> update;
    double squares = 0;
    for (const at::Tensor& part : request.parts) {
      update.push_back(part.to(at::kDouble));
      squares += update.back().dot(update.back()).item<double>();
    }
    bool finite = std::isfinite(squares) && samples > 0;
    for (const at::Tensor& tensor : tensors_of(request.statistics)) finite &= at::isfinite(tensor).all().item<bool>();
    if (!finite) {
      ++rounds_.record().refused;
      rounds_.record().refused_clients.push_back(client);
      return false;
    }
    const double norm = std::sqrt(squares);
    const bool clips = options_.clip_norm > 0 && norm > options_.clip_norm;
    rounds_.record().clipped += clips ? 1 : 0;
    ++rounds_.record().answered;
    sum_.add(update, clips ? options_.clip_norm / norm : 1, request.statistics, samples);
    return true;
  }

  void end_round(CentralShard& shard, double now) {
    if (sum_.samples > 0) {
      for (at::Tensor& update : sum_.updates) update.div_(sum_.samples);
      optimizer_.step(shard.weights, sum_.updates);
      copy_statistics(sum_.statistics, shard.statistics);
      ++shard.version;
    }
    RoundRecord record = rounds_.record();
    record.samples = sum_.samples;
    record.seconds = now;
    sum_ = {};
    if (policy_.on_round) policy_.on_round(record, {.weights = shard.weights, .statistics = shard.statistics});
    if (stops_) rounds_.stop();
    else rounds_.next(now);
    MutexLock lock(mutex_);
    records_.push_back(record);
  }

  // accessed only by the current visitor of the one shard
  const FederatedOptions options_;
  const FederatedPolicy& policy_;
  FederatedRounds rounds_;
  ServerOptimizer optimizer_;
  RoundSum sum_;
  std::optional<double> resumed_;  ///< time on the hub's clock; null: not resumed

  std::atomic<bool> stops_ = false;
  mutable Mutex mutex_;
  std::vector<RoundRecord> records_ TRIREME_GUARDED_BY(mutex_);
};

class Client final : public CentralReplica {
 public:
  Client(const FederatedOptions& options, Hub& hub) : CentralReplica(hub, 1), options_(options), work_(options.local) {}

  Before before_step(const StepFacts& facts, ReplicaState& state) override {
    if (std::exchange(has_left_, false))
      client_.exchange({.operation = FederatedServer::kReturn}, {}, {});  // the run has been extended
    const bool joins = !works_;
    if (joins) {
      const FederatedServer::Joined joined = join(state);
      if (joined != FederatedServer::kWorks)
        return {.stop = joined == FederatedServer::kIsOver, .held = joined == FederatedServer::kIsHeld};
    }
    if (facts.learning_rate * options_.proximal > 1)
      fail_run({"fedprox", fmt::format("mu = {} at a learning rate of {}", options_.proximal, facts.learning_rate),
                "the step towards the round's weights would go beyond them", "keep their product at 1 or below"});
    if (options_.proximal > 0)
      for (size_t b = 0; b < anchor_.size(); ++b) {
        at::sub_out(pull_[b], state.weights[b], anchor_[b]);
        pull_[b].mul_(facts.learning_rate * options_.proximal);
      }
    return {.wrote = joins};
  }

  bool after_step(const StepFacts& facts, ReplicaState& state) override {
    if (options_.proximal > 0)
      for (size_t b = 0; b < pull_.size(); ++b) state.weights[b].sub_(pull_[b]);
    samples_ += double(facts.samples);
    if (work_.due_after(facts)) answer(state);
    return options_.proximal > 0;
  }

  void settle(ReplicaState&) override {
    if (!has_left_) client_.exchange({.operation = FederatedServer::kLeave}, {}, {});
    has_left_ = true;
  }

  void finish(ReplicaState& state) override {
    settle(state);
    take_result(state);
  }

  void leave(ReplicaState&) override {
    Hub::Unmetered gone(hub_);
    client_.exchange({.operation = FederatedServer::kLeave}, {}, {});
  }

  void release_waiting() override { client_.release_waiting(); }

 protected:
  void fields(StateFields& fields, const ReplicaState& state) override {
    client_.fields(fields);
    work_.fields(fields);
    fields.value("works", works_);
    fields.value("round", round_);
    fields.value("samples in the round", samples_);
    fields.value("has left", has_left_);
    fields.weights_if_any("weights when the round began", anchor_, state.weights);
    if (fields.reads())
      for (const at::Tensor& w : anchor_) pull_.push_back(at::empty_like(w));
  }

 private:
  /// Waits for the client's next round.
  FederatedServer::Joined join(ReplicaState& state) {
    const auto told = client_.exchange(
        {.operation = FederatedServer::kJoin, .reads = true}, state.weights,
        [](at::Tensor& mine, const at::Tensor& model) { mine.copy_(model); }, state.statistics);
    const auto joined = FederatedServer::Joined(int(told.front()[0]));
    if (joined != FederatedServer::kWorks) return joined;
    round_ = int64_t(told.front()[1]);
    works_ = true;
    samples_ = 0;
    work_ = Cadence(options_.local);
    if (anchor_.empty())
      for (const at::Tensor& w : state.weights) {
        anchor_.push_back(at::empty_like(w));
        pull_.push_back(at::empty_like(w));
      }
    for (size_t b = 0; b < anchor_.size(); ++b) anchor_[b].copy_(state.weights[b]);
    if (options_.moments == Moments::reset) reset_moments(state);
    return joined;
  }

  void answer(const ReplicaState& state) {
    works_ = false;
    send_update(state);
    anchor_.clear();  // frees memory: most clients have no work in most rounds
    pull_.clear();
  }

  void send_update(const ReplicaState& state) {
    const Philox draw(random_key(options_.rounds.seed, "clients that drop out"));
    if (options_.dropout > 0 && draw.uniform(uint64_t(round_), uint64_t(hub_.replica())) < options_.dropout) return;
    for (size_t b = 0; b < pull_.size(); ++b) at::sub_out(pull_[b], state.weights[b], anchor_[b]);
    client_.exchange({.operation = FederatedServer::kAnswer,
                      .tensors = pull_,
                      .statistics = state.statistics,
                      .numbers = {double(round_), samples_}},
                     {}, {});
  }

  const FederatedOptions options_;
  Cadence work_;
  bool works_ = false;  ///< true while it works in round_
  bool has_left_ = false;
  int64_t round_ = 0;
  double samples_ = 0;              ///< samples in the round
  std::vector<at::Tensor> anchor_;  ///< the weights at the beginning of the round
  std::vector<at::Tensor> pull_;    ///< pull of the current step; at the end the client's update
};

std::string describe(const FederatedOptions& options) {
  using Kind = ServerOptimizerOptions::Kind;
  const ServerOptimizerOptions& server = options.server;
  const RoundOptions& rounds = options.rounds;
  const char* kind = server.kind == Kind::average   ? "average"
                     : server.kind == Kind::adam    ? "adam"
                     : server.kind == Kind::adagrad ? "adagrad"
                                                    : "yogi";
  return fmt::format(
      "federated,clients={},seed={},fraction={},round_timeout={} s,local={},clip_norm={},dropout={},moments={},mu={},"
      "server_optimizer={},server_learning_rate={},server_momentum={},beta1={},beta2={},tau={}",
      rounds.clients, rounds.seed, rounds.fraction, rounds.timeout, text_of(options.local), options.clip_norm,
      options.dropout, text_of(options.moments), options.proximal, kind, server.learning_rate, server.momentum,
      server.beta1, server.beta2, server.tau);
}

class Federated final : public FederatedPolicy {
 public:
  explicit Federated(const FederatedOptions& options) : options_(options), server_(options, *this) {}
  std::string description() const override { return describe(options_); }
  ShardServer* server() override { return &server_; }
  WhenLost when_lost() const override { return WhenLost::may_return; }
  Stops stops() const override { return Stops::held; }
  void hold() override { server_.hold(true); }
  void go_on() override { server_.hold(false); }
  bool refuses_broken_values() const override { return true; }
  std::optional<StepsRefusal> refuses_steps(int64_t steps, const std::string& name) const override;
  std::unique_ptr<ReplicaPolicy> for_replica(Hub& hub) override { return std::make_unique<Client>(options_, hub); }
  const FederatedOptions& options() const override { return options_; }
  bool counts_rounds() const override { return options_.rounds.rounds > 0; }
  void stop() override { server_.stop(); }
  std::vector<RoundRecord> rounds() const override { return server_.records(); }

 protected:
  void fields(StateFields& fields, double now) override { server_.fields(fields, now); }

 private:
  const FederatedOptions options_;
  FederatedServer server_;
};

/// A run ends with a round, not in the middle of one.
std::optional<UpdatePolicy::StepsRefusal> Federated::refuses_steps(int64_t steps, const std::string& name) const {
  if (counts_rounds())
    return StepsRefusal{fmt::format("the run of {} ends after rounds = {}", name, options_.rounds.rounds),
                        "leave out --steps, or leave out rounds"};
  const Length& local = options_.local;
  if (local.unit == Length::Unit::steps && local.count <= double(steps)) return std::nullopt;
  return StepsRefusal{
      fmt::format("the run of {} ends with a round, in which a client trains for local = {}", name, text_of(local)),
      fmt::format("give rounds instead (\"{0},rounds=1\"), or local in steps (\"{0},local={1} steps\")", name, steps)};
}

FederatedOptions read_options(const ConfigTable& update, const RunFacts& facts) {
  FederatedOptions options;
  options.rounds.clients = facts.replicas;
  options.rounds.seed = facts.seed;
  options.rounds.rounds = update.has("rounds") ? update.get_int("rounds", 1, 1) : 0;
  options.rounds.fraction = update.get_double("fraction", 1, 0);
  if (!(options.rounds.fraction <= 1))
    update.fail("fraction", "it is the share of the clients in a round", "choose 0 to 1");
  options.rounds.timeout = update.get_seconds("round_timeout", 0);
  options.local = read_whole_length(update, "local", options.local, 1);
  options.clip_norm = update.get_double("clip_norm", options.clip_norm, 0);
  options.dropout = update.get_double("dropout", options.dropout, 0);
  if (!(options.dropout < 1)) update.fail("dropout", "no client would ever answer", "choose less than 1");
  if (options.dropout > 0 && options.rounds.timeout == 0)
    update.fail("dropout", "a round whose clients do not answer would never end", "add round_timeout = \"60 s\"");
  options.moments = read_moments(update, options.moments, false);
  return options;
}

constexpr double kUsualMu = 0.01;
constexpr double kUsualAdaptiveRate = 0.01;

void read_averaging(const ConfigTable& update, FederatedOptions& options) {
  options.server.learning_rate = update.get_double("server_learning_rate", options.server.learning_rate, 0);
  options.server.momentum = update.get_double("server_momentum", options.server.momentum, 0);
  if (!(options.server.momentum < 1))
    update.fail("server_momentum", "it must be below 1, or the velocity grows without bound", "0.9 is usual");
}

}  // namespace

std::unique_ptr<FederatedPolicy> federated(const FederatedOptions& options) {
  return std::make_unique<Federated>(options);
}

namespace {

std::unique_ptr<UpdatePolicy> read_fedavg(const ConfigTable& update, const RunFacts& facts) {
  FederatedOptions options = read_options(update, facts);
  read_averaging(update, options);
  return federated(options);
}

std::unique_ptr<UpdatePolicy> read_fedprox(const ConfigTable& update, const RunFacts& facts) {
  FederatedOptions options = read_options(update, facts);
  read_averaging(update, options);
  options.proximal = update.get_double("mu", kUsualMu, 0);
  return federated(options);
}

std::unique_ptr<UpdatePolicy> read_fedadam(const ConfigTable& update, const RunFacts& facts) {
  using Kind = ServerOptimizerOptions::Kind;
  FederatedOptions options = read_options(update, facts);
  const std::string kind = update.get_choice("server_optimizer", "adam", {"adam", "adagrad", "yogi"});
  options.server.kind = kind == "adam" ? Kind::adam : kind == "adagrad" ? Kind::adagrad : Kind::yogi;
  options.server.learning_rate = update.get_double("server_learning_rate", kUsualAdaptiveRate, 0);
  options.server.beta1 = update.get_double("beta1", options.server.beta1, 0);
  if (!(options.server.beta1 < 1)) update.fail("beta1", "it is the share that stays", "choose less than 1");
  if (options.server.kind != Kind::adagrad) {
    options.server.beta2 = update.get_double("beta2", options.server.beta2, 0);
    if (!(options.server.beta2 < 1)) update.fail("beta2", "it is the share that stays", "choose less than 1");
  }
  options.server.tau = update.get_double("tau", options.server.tau, 0);
  if (!(options.server.tau > 0))
    update.fail("tau", "updates are divided by it where they are 0", "choose a small number above 0");
  return federated(options);
}

}  // namespace

constinit const PolicyKind kFedavg = {
    .name = "fedavg",
    .description = "rounds of clients with samples of their own (McMahan et al., 2017)",
    .read = read_fedavg,
};

constinit const PolicyKind kFedprox = {
    .name = "fedprox",
    .description = "fedavg, clients held near the round's weights (Li et al., 2020)",
    .read = read_fedprox,
};

constinit const PolicyKind kFedadam = {
    .name = "fedadam",
    .description = "fedavg with Adam, Adagrad or Yogi on the server (Reddi et al., 2021)",
    .read = read_fedadam,
};

}  // namespace trireme
