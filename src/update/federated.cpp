#include "update/federated.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/mutex.h"
#include "base/random.h"
#include "trireme/error.h"
#include "update/cadence.h"
#include "update/central_server.h"
#include "update/registry.h"
#include "update/statistics.h"

namespace trireme {
namespace {

[[noreturn]] void refuse_statistics() {
  fail_user({"differential privacy (noise)", "the model has running statistics (batch norm)",
             "they would tell about the clients' samples without noise",
             "choose a model without them, or leave noise out"});
}

/// Requests: `join` waits until the client works in the open round; its reply has the outcome, the round and the
/// weights. `answer` (round, samples, progress) brings the client's update; its reply says whether it counts. `leave`:
/// the client takes no further part. `return`: it takes part again. With control variates, `variate` fetches the
/// server's after `join`, and `change` brings that of the client's before `answer`.
class FederatedServer final : public CentralServer {
 public:
  enum Joined { kWorks, kIsOver, kIsHeld };
  static constexpr int kJoin = kFirstOperation, kAnswer = kFirstOperation + 1, kLeave = kFirstOperation + 2,
                       kReturn = kFirstOperation + 3, kVariate = kFirstOperation + 4, kChange = kFirstOperation + 5;

  FederatedServer(const FederatedOptions& options, const FederatedPolicy& policy)
      : CentralServer(1, options.compression),
        options_(options),
        policy_(policy),
        rounds_(options.rounds),
        optimizer_(options.server),
        sum_(options.aggregate) {}

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
    if (request.operation == kVariate) return variate(shard, client, request.whole_number(0));
    if (request.operation == kChange) note_change(shard, client, request);
    if (request.operation == kLeave) rounds_.leave(client);
    if (request.operation == kReturn) rounds_.come_back(client, now);
    if (request.operation == kAnswer) {
      check_brings_all(shard, request);
      request.is_used = rounds_.answer(client, request.whole_number(0)) && take(client, request);
      changes_.erase(client);
    }
    while (rounds_.is_complete(now)) end_round(shard, now);
    return Reply{.numbers = {double(request.is_used)}};
  }

  void server_fields(StateFields& fields, double now) override {
    rounds_.fields(fields, now);
    if (options_.control_variates) {
      fields.value("epoch of control variates", epoch_);
      std::vector<int64_t> counted(counted_.begin(), counted_.end());
      fields.value("clients with a control variate", counted);
      counted_ = {counted.begin(), counted.end()};
    }
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
    if (!options_.control_variates) return;
    fields.weights_if_any("control variate", variate_, shard.weights, at::kDouble);
    fields.weights_if_any("change of the control variate", change_, shard.weights, at::kDouble);
  }
  void begin_anew(int client) override { rounds_.begin_anew(client); }

 private:
  std::optional<Reply> join(const CentralShard& shard, int client) {
    if (rounds_.is_over()) return Reply{.numbers = {kIsOver, 0}};
    if (holds()) return Reply{.numbers = {kIsHeld, 0}};
    if (!rounds_.may_begin(client)) return std::nullopt;
    rounds_.begin(client);
    changes_.erase(client);  // of a connection that broke
    return Reply{.tensors = copies_of_values(shard), .numbers = {kWorks, double(rounds_.round())}};
  }

  static void make_zeros(std::vector<at::Tensor>& tensors, const CentralShard& shard) {
    if (tensors.empty())
      for (const at::Tensor& weights : shard.weights) tensors.push_back(at::zeros_like(weights, at::kDouble));
  }

  /// `told`: the epoch of the client's own variate; -1: it has none. A client that has lost the variate that is part of
  /// the mean makes the mean wrong for ever, so a new epoch begins, in which all variates are zero.
  Reply variate(const CentralShard& shard, int client, int64_t told) {
    if (counted_.contains(client) && told != epoch_) {
      ++epoch_;
      variate_.clear();
      change_.clear();
      changes_.clear();
      counted_.clear();
    }
    make_zeros(variate_, shard);
    Reply reply{.numbers = {double(epoch_)}};
    for (size_t p = 0; p < variate_.size(); ++p)
      reply.tensors.push_back(variate_[p].to(shard.weights[p].scalar_type(), /*non_blocking=*/false, /*copy=*/true));
    return reply;
  }

  /// The change counts if the answer that follows it does.
  void note_change(const CentralShard& shard, int client, CentralRequest& request) {
    request.is_used = false;  // the answer is
    if (request.parts.size() != shard.weights.size())
      fail_run({"a request to the parameter server", "it brings no control variate", "", "use the same policy"});
    if (request.whole_number(0) != epoch_) return;
    std::vector<at::Tensor>& change = changes_[client];
    change.clear();
    for (const at::Tensor& part : request.parts)
      change.push_back(part.to(at::kDouble, /*non_blocking=*/false, /*copy=*/true));
  }

  /// Returns true if the update becomes part of the round.
  bool take(int client, const CentralRequest& request) {
    if (options_.privacy.is_wanted() && !request.statistics.empty()) refuse_statistics();
    const double samples = request.number(1);
    const double progress = options_.aggregate.kind == AggregateOptions::Kind::normalized ? request.number(2) : 0;
    std::vector<at::Tensor> update;
    double squares = 0;
    for (const at::Tensor& part : request.parts) {
      update.push_back(part.to(at::kDouble));
      squares += update.back().dot(update.back()).item<double>();
    }
    const auto change = changes_.find(client);
    const bool finite = std::isfinite(squares) && samples > 0 && progress >= 0 &&
                        all_finite(tensors_of(request.statistics)) &&
                        (change == changes_.end() || all_finite(change->second));
    if (!finite) {
      ++rounds_.record().refused;
      rounds_.record().refused_clients.push_back(client);
      return false;
    }
    const double norm = std::sqrt(squares);
    const bool clips = options_.clip_norm > 0 && norm > options_.clip_norm;
    rounds_.record().clipped += clips ? 1 : 0;
    ++rounds_.record().answered;
    sum_.add({.update = update,
              .scale = clips ? options_.clip_norm / norm : 1,
              .statistics = request.statistics,
              .samples = samples,
              .progress = progress});
    if (change != changes_.end()) {
      counted_.insert(client);
      if (change_.empty()) change_ = change->second;
      else
        for (size_t p = 0; p < change_.size(); ++p) change_[p].add_(change->second[p]);
    }
    return true;
  }

  /// Returns the round's update; empty: too few clients have answered. With privacy even a round without answers has
  /// one: that there were none must not show.
  std::vector<at::Tensor> update_of_round(const CentralShard& shard) const {
    const PrivacyOptions& privacy = options_.privacy;
    if (!privacy.is_wanted()) return sum_.is_enough() ? sum_.update() : std::vector<at::Tensor>();
    const double expected = options_.rounds.fraction * options_.rounds.clients;
    std::vector<at::Tensor> update = sum_.total();
    make_zeros(update, shard);
    add_noise(update, privacy.noise * options_.clip_norm, *options_.rounds.secret, rounds_.round());
    for (at::Tensor& part : update) part.div_(expected);
    return update;
  }

  void end_round(CentralShard& shard, double now) {
    if (std::vector<at::Tensor> update = update_of_round(shard); !update.empty()) {
      optimizer_.step(shard.weights, update);
      if (!options_.privacy.is_wanted()) copy_statistics(sum_.statistics(), shard.statistics);
      ++shard.version;
    }
    if (!change_.empty()) {
      make_zeros(variate_, shard);
      for (size_t p = 0; p < change_.size(); ++p) variate_[p].add_(change_[p], 1.0 / options_.rounds.clients);
      change_.clear();
    }
    RoundRecord record = rounds_.record();
    record.samples = sum_.samples();
    record.seconds = policy_.run_seconds ? policy_.run_seconds(now) : now;
    sum_.clear();
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
  std::vector<at::Tensor> variate_;                 ///< the mean of the clients' control variates; empty: zero
  std::vector<at::Tensor> change_;                  ///< the sum of their changes in the open round; empty: zero
  std::map<int, std::vector<at::Tensor>> changes_;  ///< by client: its change, until its answer
  int64_t epoch_ = 0;                               ///< of the control variates
  std::set<int> counted_;                           ///< clients whose variates are part of the mean
  std::optional<double> resumed_;                   ///< time on the hub's clock; null: not resumed

  std::atomic<bool> stops_ = false;
  mutable Mutex mutex_;
  std::vector<RoundRecord> records_ TRIREME_GUARDED_BY(mutex_);
};

class Client final : public CentralReplica {
 public:
  Client(const FederatedOptions& options, Hub& hub)
      : CentralReplica(hub, 1),
        options_(options),
        work_(options.local),
        update_feedback_(options.compression, "updates"),
        variate_feedback_(options.compression, "changes of the control variate") {}

  Before before_step(const StepFacts& facts, ReplicaState& state) override {
    if (std::exchange(has_left_, false))
      client_.exchange({.operation = FederatedServer::kReturn}, {}, {});  // the run has been extended
    if (options_.privacy.is_wanted() && !state.statistics.empty()) refuse_statistics();
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
    if (options_.control_variates)
      for (size_t b = 0; b < common_.size(); ++b) {
        state.weights[b].sub_(common_[b], facts.learning_rate);
        state.weights[b].add_(own_[b], facts.learning_rate);
      }
    samples_ += double(facts.samples);
    progress_ += facts.learning_rate;
    if (work_.due_after(facts)) answer(state);
    return options_.proximal > 0 || options_.control_variates;
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
    update_feedback_.fields(fields, state.weights);
    if (options_.needs_progress()) fields.value("progress in the round", progress_);
    if (options_.control_variates) {
      fields.value("epoch of control variates", epoch_);
      fields.weights_if_any("own control variate", own_, state.weights);
      fields.weights_if_any("common control variate", common_, state.weights);
    }
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
    samples_ = progress_ = 0;
    work_ = Cadence(options_.local);
    if (anchor_.empty())
      for (const at::Tensor& w : state.weights) {
        anchor_.push_back(at::empty_like(w));
        pull_.push_back(at::empty_like(w));
      }
    for (size_t b = 0; b < anchor_.size(); ++b) anchor_[b].copy_(state.weights[b]);
    if (options_.control_variates) fetch_variate(state);
    if (options_.moments == Moments::reset) reset_moments(state);
    return joined;
  }

  void fetch_variate(const ReplicaState& state) {
    for (const at::Tensor& w : state.weights) common_.push_back(at::empty_like(w));
    const auto told = client_.exchange({.operation = FederatedServer::kVariate, .numbers = {double(epoch_)}}, common_,
                                       [](at::Tensor& mine, const at::Tensor& newest) { mine.copy_(newest); });
    if (const auto epoch = int64_t(told.front()[0]); std::exchange(epoch_, epoch) == epoch) return;
    own_.clear();
    for (const at::Tensor& w : state.weights) own_.push_back(at::zeros_like(w));
  }

  /// Sends the change of c_i to c_i - c + (x - y) / progress, where the weights went from x to y.
  void send_change(const ReplicaState& state) {
    for (size_t b = 0; b < common_.size(); ++b) {
      at::sub_out(pull_[b], anchor_[b], state.weights[b]);
      common_[b].neg_().add_(pull_[b].div_(progress_));
    }
    client_.exchange({.operation = FederatedServer::kChange,
                      .tensors = common_,
                      .feedback = variate_feedback_.if_wanted(),
                      .numbers = {double(epoch_)}},
                     {}, {});
    if (!variate_feedback_.is_wanted()) return;
    // c is the mean of all c_i only if c_i changes by what arrives. The next change has what is missing.
    const std::span<at::Tensor> lost = variate_feedback_.errors(common_);
    for (size_t b = 0; b < common_.size(); ++b) common_[b].sub_(lost[b]);
    variate_feedback_.clear();
  }

  void answer(const ReplicaState& state) {
    works_ = false;
    send_update(state);
    anchor_.clear();  // frees memory: most clients have no work in most rounds
    pull_.clear();
    common_.clear();
  }

  void send_update(const ReplicaState& state) {
    const Philox draw(random_key(options_.rounds.seed, "clients that drop out"));
    if (options_.dropout > 0 && draw.uniform(uint64_t(round_), uint64_t(hub_.replica())) < options_.dropout) return;
    const bool changes = options_.control_variates && progress_ > 0;
    if (changes) send_change(state);
    for (size_t b = 0; b < pull_.size(); ++b) at::sub_out(pull_[b], state.weights[b], anchor_[b]);
    const auto told = client_.exchange({.operation = FederatedServer::kAnswer,
                                        .tensors = pull_,
                                        .feedback = update_feedback_.if_wanted(),
                                        .statistics = state.statistics,
                                        .numbers = {double(round_), samples_, progress_}},
                                       {}, {});
    const bool counts = told.front()[0] == 1;
    if (changes && counts)
      for (size_t b = 0; b < own_.size(); ++b) own_[b].add_(common_[b]);
  }

  const FederatedOptions options_;
  Cadence work_;
  ErrorFeedback update_feedback_, variate_feedback_;
  bool works_ = false;  ///< true while it works in round_
  bool has_left_ = false;
  int64_t round_ = 0;
  double samples_ = 0;              ///< samples in the round
  double progress_ = 0;             ///< sum of the learning rates in the round
  int64_t epoch_ = -1;              ///< of its control variate; -1: it has none
  std::vector<at::Tensor> anchor_;  ///< the weights at the beginning of the round
  std::vector<at::Tensor> pull_;    ///< pull of the current step; at the end the client's update
  std::vector<at::Tensor> own_;     ///< its control variate; empty before its first round, and without them
  std::vector<at::Tensor>
      common_;  ///< the server's control variate when the round began; at its end the change of `own_`
};

/// "" for the mean, so that the text of runs that know no other way stays the same.
std::string describe(const AggregateOptions& options) {
  if (options.kind == AggregateOptions::Kind::mean) return "";
  return fmt::format(",aggregate={},trim={},byzantine={}", text_of(options.kind), options.trim, options.byzantine);
}

/// "" without privacy.
std::string describe(const PrivacyOptions& options) {
  if (!options.is_wanted()) return "";
  return fmt::format(",noise={},delta={},noise_seed={}", options.noise, options.delta,
                     options.seed ? std::to_string(*options.seed) : "secret");
}

std::string describe(const FederatedOptions& options) {
  const ServerOptimizerOptions& server = options.server;
  const RoundOptions& rounds = options.rounds;
  return fmt::format(
             "federated,clients={},seed={},fraction={},round_timeout={} "
             "s,local={},clip_norm={},dropout={},moments={},mu={},"
             "server_optimizer={},server_learning_rate={},server_momentum={},beta1={},beta2={},tau={}",
             rounds.clients, rounds.seed, rounds.fraction, rounds.timeout, text_of(options.local), options.clip_norm,
             options.dropout, text_of(options.moments), options.proximal, name_of(server.kind), server.learning_rate,
             server.momentum, server.beta1, server.beta2, server.tau) +
         describe(options.aggregate) + (options.control_variates ? ",control_variates" : "") +
         describe(options.privacy) + text_of(options.compression);
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

}  // namespace

std::optional<PrivacySpent> FederatedPolicy::privacy() const {
  if (!options().privacy.is_wanted()) return std::nullopt;
  return privacy_spent(options().rounds.fraction, options().privacy, int64_t(rounds().size()));
}

std::unique_ptr<FederatedPolicy> federated(const FederatedOptions& options) {
  return std::make_unique<Federated>(options);
}

}  // namespace trireme
