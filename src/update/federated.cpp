#include "update/federated.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/random.h"
#include "trireme/error.h"
#include "update/cadence.h"
#include "update/central_server.h"
#include "update/federated_server.h"
#include "update/local_parts.h"
#include "update/registry.h"
#include "update/statistics.h"

namespace trireme {
namespace {

class Client final : public CentralReplica {
 public:
  /// `local`: null if everything is exchanged.
  Client(const FederatedOptions& options, std::shared_ptr<const LocalParts> local, Hub& hub)
      : CentralReplica(hub, 1),
        options_(options),
        local_(std::move(local)),
        work_(options.local),
        update_feedback_(options.compression, "updates"),
        variate_feedback_(options.compression, "changes of the control variate") {}

  void begin(ReplicaState& state) override {
    ReplicaState exchanged = exchanged_of(state);
    const bool takes_servers = client_.begin(exchanged, resumes());
    if (!local_) return;
    if (takes_servers) take_local(FederatedServer::kOwn, state);
    else if (!resumes()) bring_local(state);
  }

  Before before_step(const StepFacts& facts, ReplicaState& state) override {
    if (std::exchange(has_left_, false))
      client_.exchange({.operation = FederatedServer::kReturn}, {}, {});  // the run has been extended
    if (options_.privacy.is_wanted() && !state.statistics.empty()) refuse_private_statistics();
    const bool joins = !works_;
    if (joins) {
      const FederatedServer::Joined joined = join(state);
      if (joined != FederatedServer::kWorks)
        return {.stop = joined == FederatedServer::kIsOver, .held = joined == FederatedServer::kIsHeld};
    }
    if (facts.learning_rate * options_.proximal > 1)
      fail_run({"fedprox", fmt::format("mu = {} at a learning rate of {}", options_.proximal, facts.learning_rate),
                "the step towards the round's weights would go beyond them", "keep their product at 1 or below"});
    if (options_.proximal > 0) {
      const ReplicaState exchanged = exchanged_of(state);
      for (size_t b = 0; b < anchor_.size(); ++b) {
        at::sub_out(pull_[b], exchanged.weights[b], anchor_[b]);
        pull_[b].mul_(facts.learning_rate * options_.proximal);
      }
    }
    return {.wrote = joins};
  }

  bool after_step(const StepFacts& facts, ReplicaState& state) override {
    const bool corrects = options_.proximal > 0 || options_.control_variates;
    if (corrects) correct(facts, exchanged_of(state));
    samples_ += double(facts.samples);
    progress_ += facts.learning_rate;
    return (work_.due_after(facts) && answer(state)) || corrects;
  }

  void settle(ReplicaState&) override {
    if (!has_left_) client_.exchange({.operation = FederatedServer::kLeave}, {}, {});
    has_left_ = true;
  }

  void finish(ReplicaState& state) override {
    settle(state);
    ReplicaState exchanged = exchanged_of(state);
    take_result(exchanged);
    if (local_) take_local(FederatedServer::kMean, state);
  }

  ModelValues values_for_evaluation(ReplicaState& state) override {
    const ModelValues central = client_.read(exchanged_of(state));
    return local_ ? joined(*local_, central, told_local(FederatedServer::kMean, state)) : central;
  }

  void leave(ReplicaState&) override {
    Hub::Unmetered gone(hub_);
    client_.exchange({.operation = FederatedServer::kLeave}, {}, {});
  }

  void release_waiting() override { client_.release_waiting(); }

 protected:
  void fields(StateFields& fields, const ReplicaState& whole) override {
    const ReplicaState state = exchanged_of(whole);
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
  ReplicaState exchanged_of(const ReplicaState& state) const { return local_ ? shared_part(*local_, state) : state; }

  /// Fetches local values from the server, cut like those of the state.
  ModelValues told_local(int operation, const ReplicaState& state) {
    Hub::Unmetered quiet(hub_);
    const Reply reply = hub_.visit(0, {.operation = operation});
    const std::span<const at::Tensor> tensors = reply.tensors;
    const ModelValues mine = local_part(*local_, state);
    check_internal(tensors.size() == mine.weights.size() + 2 * mine.statistics.size(),
                   "the server has as many local tensors as the client");
    const auto weights = std::ptrdiff_t(mine.weights.size());
    return {.weights = {tensors.begin(), tensors.begin() + weights},
            .statistics = statistics_of(tensors.subspan(mine.weights.size()))};
  }

  /// Replaces the client's local values by values from the server. `operation`: kOwn or kMean of FederatedServer.
  void take_local(int operation, const ReplicaState& state) {
    const ModelValues told = told_local(operation, state), mine = local_part(*local_, state);
    for (size_t p = 0; p < mine.weights.size(); ++p) mine.weights[p].copy_(told.weights[p]);
    for (size_t s = 0; s < mine.statistics.size(); ++s) {
      mine.statistics[s].mean.copy_(told.statistics[s].mean);
      mine.statistics[s].variance.copy_(told.statistics[s].variance);
    }
  }

  /// Gives the server a copy of the local values, for evaluations and checkpoints. Values that are not finite would
  /// make every later update useless: the client then returns to those that it brought last. Returns true if it does.
  bool bring_local(const ReplicaState& state) {
    ModelValues mine = local_part(*local_, state);
    std::vector<at::Tensor> tensors = std::move(mine.weights);
    for (at::Tensor& tensor : tensors_of(mine.statistics)) tensors.push_back(std::move(tensor));
    if (!all_finite(tensors)) {
      take_local(FederatedServer::kOwn, state);
      return true;
    }
    Hub::Unmetered quiet(hub_);
    hub_.visit(0, {.operation = FederatedServer::kKeep, .tensors = std::move(tensors)});
    return false;
  }

  /// The terms that FedProx and SCAFFOLD add to a step.
  void correct(const StepFacts& facts, const ReplicaState& exchanged) const {
    if (options_.proximal > 0)
      for (size_t b = 0; b < pull_.size(); ++b) exchanged.weights[b].sub_(pull_[b]);
    if (options_.control_variates)
      for (size_t b = 0; b < common_.size(); ++b) {
        exchanged.weights[b].sub_(common_[b], facts.learning_rate);
        exchanged.weights[b].add_(own_[b], facts.learning_rate);
      }
  }

  /// Waits for the client's next round.
  FederatedServer::Joined join(ReplicaState& whole) {
    ReplicaState state = exchanged_of(whole);
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
    if (options_.moments == Moments::reset) reset_moments(whole);
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
    // c is the mean of all c_i only if c_i changes by exactly what the server receives, so the code's error is
    // subtracted. The next change is computed anew and contains it.
    const std::span<at::Tensor> lost = variate_feedback_.errors(common_);
    for (size_t b = 0; b < common_.size(); ++b) common_[b].sub_(lost[b]);
    variate_feedback_.clear();
  }

  /// Returns true if it wrote weights.
  bool answer(const ReplicaState& state) {
    works_ = false;
    // The answer may end the round, which is then evaluated, so the local values are brought first.
    const bool wrote = local_ && bring_local(state);
    send_update(exchanged_of(state));
    anchor_.clear();  // frees memory: most clients have no work in most rounds
    pull_.clear();
    common_.clear();
    return wrote;
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
  const std::shared_ptr<const LocalParts> local_;  ///< null: everything is exchanged
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

/// Returns "" for the mean, so that the description of such runs is the same as before there were other aggregates.
std::string describe(const AggregateOptions& options) {
  if (options.kind == AggregateOptions::Kind::mean) return "";
  return fmt::format(",aggregate={},trim={},byzantine={}", text_of(options.kind), options.trim, options.byzantine);
}

/// Returns "" without privacy.
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
         describe(options.privacy) + text_of(options.compression) +
         (options.local_parameters.empty()
              ? ""
              : fmt::format(",local_parameters={}", fmt::join(options.local_parameters, " ")));
}

class Federated final : public FederatedPolicy {
 public:
  explicit Federated(const FederatedOptions& options) : options_(options), server_(options, on_round, run_seconds) {}
  std::string description() const override { return describe(options_); }
  ShardServer* server() override { return &server_; }
  WhenLost when_lost() const override { return WhenLost::may_return; }
  Stops stops() const override { return Stops::held; }
  void hold() override { server_.hold(true); }
  void go_on() override { server_.hold(false); }
  bool refuses_broken_values() const override { return true; }
  std::optional<StepsRefusal> refuses_steps(int64_t steps, const std::string& name) const override;
  std::vector<std::string> local_parameters() const override { return options_.local_parameters; }
  void set_local(const LocalParts& parts) override {
    local_ = std::make_shared<const LocalParts>(parts);
    server_.set_local(local_);
  }
  std::unique_ptr<ReplicaPolicy> for_replica(Hub& hub) override {
    check_internal(local_ != nullptr || options_.local_parameters.empty(), "a policy knows where local parameters lie");
    return std::make_unique<Client>(options_, local_, hub);
  }
  std::map<int, ModelValues> own_models() const override { return server_.own_models(); }
  const FederatedOptions& options() const override { return options_; }
  bool counts_rounds() const override { return options_.rounds.rounds > 0; }
  void stop() override { server_.stop(); }
  std::vector<RoundRecord> rounds() const override { return server_.records(); }

 protected:
  void fields(StateFields& fields, double now) override { server_.fields(fields, now); }

 private:
  const FederatedOptions options_;
  std::shared_ptr<const LocalParts> local_;
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
