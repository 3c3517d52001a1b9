#include "update/downpour.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "update/central_server.h"
#include "update/registry.h"
#include "update/statistics.h"

namespace trireme {
namespace {

/// Number of a push request: the learning rate. The reply has no weights.
class GradientServer final : public CentralServer {
 public:
  static constexpr int kPush = kFirstOperation;

  GradientServer(const DownpourOptions& options, int replicas)
      : CentralServer(options.shards, options.compression),
        options_(options),
        replicas_(replicas),
        squares_(size_t(options.shards)) {}

 protected:
  std::optional<Reply> apply(CentralShard& shard, int index, int, CentralRequest& request, double) override {
    check_brings_all(shard, request);
    for (size_t p = 0; p < request.parts.size(); ++p) {
      const at::Tensor& push = request.parts[p];
      if (!options_.adagrad) {
        shard.weights[p].sub_(push, request.number(0));
        continue;
      }
      std::vector<at::Tensor>& squares = squares_[size_t(index)];
      if (squares.size() <= p) squares.push_back(at::zeros_like(push));
      squares[p].addcmul_(push, push);
      shard.weights[p].addcdiv_(push, squares[p].sqrt().add_(options_.epsilon), -options_.gamma);
    }
    mix_statistics(shard.statistics, request.statistics, 1.0 / replicas_);
    ++shard.version;
    return Reply{};
  }

  void shard_fields(StateFields& fields, int index, CentralShard& shard) override {
    fields.weights_if_any("sums of squares", squares_[size_t(index)], shard.weights);
  }

 private:
  const DownpourOptions options_;
  const int replicas_;
  std::vector<std::vector<at::Tensor>>
      squares_;  ///< by shard and part: sums of squares; each is accessed by the current visitor of the shard
};

class DownpourReplica final : public CentralReplica {
 public:
  DownpourReplica(const DownpourOptions& options, Hub& hub)
      : CentralReplica(hub, options.shards), options_(options), feedback_(options.compression, "gradients") {}

  void begin(ReplicaState& state) override {
    CentralReplica::begin(state);
    for (const at::Tensor& w : state.weights) {
      anchor_.push_back(w.clone());
      gathered_.push_back(at::zeros_like(w));
    }
    is_warm_ = options_.warm_start == 0;
  }

  Before before_step(const StepFacts& facts, ReplicaState& state) override {
    if (!is_warm_ && (hub_.replica() > 0 || facts.step >= options_.warm_start)) end_warm_start();
    const bool fetches = facts.step % options_.fetch_every == 0;
    if (fetches || facts.learning_rate != rate_) gather(state);
    if (fetches) {
      client_.fetch(state.weights);
      drop_anchor(state);
    }
    rate_ = facts.learning_rate;
    return {.wrote = fetches};
  }

  bool after_step(const StepFacts& facts, ReplicaState& state) override {
    moved_ = true;
    if (facts.step % options_.push_every == 0) push(state);
    return false;
  }

  void settle(ReplicaState& state) override {
    if (!is_warm_) end_warm_start();
    gather(state);
    if (has_gathered_) push(state);
  }

  void finish(ReplicaState& state) override {
    settle(state);
    take_result(state);
  }

 protected:
  void fields(StateFields& fields, const ReplicaState& state) override {
    client_.fields(fields);
    feedback_.fields(fields, state.weights);
    fields.weights("weights when it gathered", anchor_);
    fields.weights("gathered gradients", gathered_);
    fields.value("learning rate", rate_);
    fields.value("has moved", moved_);
    fields.value("has gathered", has_gathered_);
    fields.value("is warm", is_warm_);
  }

 private:
  void end_warm_start() {
    is_warm_ = true;
    hub_.barrier();
  }

  void drop_anchor(const ReplicaState& state) {
    for (size_t b = 0; b < anchor_.size(); ++b) anchor_[b].copy_(state.weights[b]);
  }

  /// Accumulates the change of weights since the anchor. All steps since then had the same learning rate.
  void gather(const ReplicaState& state) {
    if (!moved_) return;
    moved_ = false;
    if (rate_ != 0)
      for (size_t b = 0; b < anchor_.size(); ++b) gathered_[b].add_(anchor_[b].sub_(state.weights[b]), 1 / rate_);
    drop_anchor(state);
    has_gathered_ = true;
  }

  void push(const ReplicaState& state) {
    gather(state);
    client_.exchange({.operation = GradientServer::kPush,
                      .tensors = gathered_,
                      .feedback = feedback_.if_wanted(),
                      .statistics = state.statistics,
                      .numbers = {rate_}},
                     {}, {});
    for (at::Tensor& gathered : gathered_) gathered.zero_();
    has_gathered_ = false;
  }

  const DownpourOptions options_;
  ErrorFeedback feedback_;
  std::vector<at::Tensor> anchor_;    ///< weights at the last accumulation
  std::vector<at::Tensor> gathered_;  ///< accumulated gradients that have not been pushed
  double rate_ = 0;                   ///< learning rate of the steps since the anchor
  bool moved_ = false;                ///< true if steps were made since the anchor
  bool has_gathered_ = false;
  bool is_warm_ = false;
};

}  // namespace

std::string DownpourOptions::description() const {
  const std::string server = adagrad ? fmt::format("adagrad,gamma={},epsilon={}", gamma, epsilon) : "sgd";
  return fmt::format("downpour,shards={},fetch_every={},push_every={},warm_start_steps={},server_optimizer={}{}",
                     shards, fetch_every, push_every, warm_start, server, text_of(compression));
}

std::unique_ptr<UpdatePolicy> downpour(const DownpourOptions& options, int replicas) {
  return std::make_unique<CentralPolicy<GradientServer, DownpourReplica, DownpourOptions>>(options, replicas);
}

namespace {

std::unique_ptr<UpdatePolicy> read_downpour(const ConfigTable& update, const RunFacts& facts) {
  DownpourOptions options;
  options.shards = read_shards(update, options.shards);
  options.compression = read_compression(update);
  options.fetch_every = update.get_int("fetch_every", options.fetch_every, 1);
  options.push_every = update.get_int("push_every", options.push_every, 1);
  options.adagrad = update.get_choice("server_optimizer", "sgd", {"sgd", "adagrad"}) == "adagrad";
  if (options.adagrad) {
    options.gamma = update.get_double("gamma", options.gamma, 0);
    options.epsilon = update.get_double("epsilon", options.epsilon, 0);
    if (!(options.epsilon > 0))
      update.fail("epsilon", "the first push may be 0, and 0 / 0 is no step", "choose a small number above 0");
  }
  options.warm_start = update.get_int("warm_start_steps", options.warm_start, 0);
  if (!facts.plain_sgd)
    update.fail("policy",
                "downpour computes gradients from the steps of plain SGD: with another local optimizer the result is "
                "no gradient",
                "write [optimizer] kind = \"sgd\", momentum = 0, or use async-average");
  return downpour(options, facts.replicas);
}

}  // namespace

constinit const PolicyKind kDownpour = {
    .name = "downpour",
    .description = "replicas push gradients to a sharded server and fetch weights from it (Dean et al., 2012)",
    .read = read_downpour,
};

}  // namespace trireme
