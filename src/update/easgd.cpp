#include "update/easgd.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "update/central_server.h"
#include "update/registry.h"
#include "update/statistics.h"

namespace trireme {
namespace {

constexpr double kUsualMomentum = 0.99;  // the paper's delta
constexpr double kLargestBeta = 1;       // above it, centre and replicas may oscillate

/// A reply is d for each part.
class ElasticServer final : public CentralServer {
 public:
  static constexpr int kPull = kFirstOperation;

  ElasticServer(const EasgdOptions& options, int replicas)
      : CentralServer(options.shards, options.compression), alpha_(options.beta / replicas) {}

 protected:
  std::optional<Reply> apply(CentralShard& shard, int index, int replica, CentralRequest& request, double) override {
    check_brings_all(shard, request);
    Reply reply;
    for (size_t p = 0; p < request.parts.size(); ++p) {
      at::Tensor distance = request.parts[p] - shard.weights[p];
      distance.mul_(alpha_);
      shard.weights[p].add_(distance);
      reply.tensors.push_back(std::move(distance));
    }
    mix_statistics(shard.statistics, request.statistics, alpha_);
    ++shard.version;
    if (knows_replicas()) set_known(index, replica, differences(request.parts, reply.tensors));
    return reply;
  }

  bool takes_weights() const override { return true; }

 private:
  const double alpha_;
};

class ElasticReplica final : public CentralReplica {
 public:
  ElasticReplica(const EasgdOptions& options, Hub& hub)
      : CentralReplica(hub, options.shards), options_(options), sent_(options.compression) {}

  void begin(ReplicaState& state) override {
    CentralReplica::begin(state);
    sent_.mark(state.weights);
    if (options_.momentum == 0) return;
    for (const at::Tensor& w : state.weights) {
      velocity_.push_back(at::zeros_like(w));
      before_.push_back(at::empty_like(w));
    }
  }

  Before before_step(const StepFacts& facts, ReplicaState& state) override {
    const bool due = facts.step % options_.period == 0;
    if (due) {
      client_.exchange({.operation = ElasticServer::kPull,
                        .tensors = sent_.to_send(state.weights),
                        .feedback = sent_.feedback(),
                        .statistics = state.statistics,
                        .reads = true},
                       state.weights, [](at::Tensor& mine, const at::Tensor& distance) { mine.sub_(distance); });
      sent_.mark(state.weights);
    }
    for (size_t b = 0; b < velocity_.size(); ++b) {  // the gradient is computed at x + delta v
      before_[b].copy_(state.weights[b]);
      state.weights[b].add_(velocity_[b], options_.momentum);
    }
    return {.wrote = due || !velocity_.empty()};
  }

  bool after_step(const StepFacts&, ReplicaState& state) override {
    for (size_t b = 0; b < velocity_.size(); ++b) at::sub_out(velocity_[b], state.weights[b], before_[b]);
    return false;
  }

  /// The replicas' last steps would reach the centre in a next exchange, which does not take place: the paper's result
  /// is the centre as it is.
  void finish(ReplicaState& state) override { take_result(state); }

 protected:
  void fields(StateFields& fields, const ReplicaState& state) override {
    client_.fields(fields);
    sent_.fields(fields, state.weights);
    if (options_.momentum != 0) fields.weights("velocity", velocity_);
  }

 private:
  const EasgdOptions options_;
  SentWeights sent_;
  std::vector<at::Tensor> velocity_, before_;  ///< for EAMSGD
};

EasgdOptions read_options(const ConfigTable& update) {
  EasgdOptions options;
  options.period = update.get_int("period", options.period, 1);
  options.beta = update.get_double("beta", options.beta, 0);
  if (!(options.beta <= kLargestBeta))
    update.fail("beta", "replicas and centre overshoot above 1", "choose 0 to 1; the paper's is 0.9");
  options.shards = read_shards(update, options.shards);
  options.compression = read_compression(update);
  return options;
}

}  // namespace

std::string EasgdOptions::description() const {
  return fmt::format("{},period={},beta={},momentum={},shards={}{}", momentum == 0 ? "easgd" : "eamsgd", period, beta,
                     momentum, shards, text_of(compression));
}

std::unique_ptr<UpdatePolicy> easgd(const EasgdOptions& options, int replicas) {
  return std::make_unique<CentralPolicy<ElasticServer, ElasticReplica, EasgdOptions>>(options, replicas);
}

namespace {

std::unique_ptr<UpdatePolicy> read_easgd(const ConfigTable& update, const RunFacts& facts) {
  return easgd(read_options(update), facts.replicas);
}

std::unique_ptr<UpdatePolicy> read_eamsgd(const ConfigTable& update, const RunFacts& facts) {
  EasgdOptions options = read_options(update);
  options.momentum = update.get_double("momentum", kUsualMomentum, 0);
  if (!(options.momentum < 1))
    update.fail("momentum", "it must be below 1, or the velocity grows without bound", "the paper's is 0.99");
  if (!facts.plain_sgd)
    update.fail("policy", "eamsgd has its own momentum: the local optimizer must be SGD without any",
                "write [optimizer] kind = \"sgd\", momentum = 0, or use easgd");
  return easgd(options, facts.replicas);
}

}  // namespace

constinit const PolicyKind kEasgd = {
    .name = "easgd",
    .description = "replicas and a centre pull each other (Zhang et al., 2015)",
    .read = read_easgd,
};

constinit const PolicyKind kEamsgd = {
    .name = "eamsgd",
    .description = "easgd with Nesterov momentum on the replicas (Zhang et al., 2015)",
    .read = read_eamsgd,
};

}  // namespace trireme
