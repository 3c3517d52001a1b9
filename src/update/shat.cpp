#include "update/shat.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "update/central_server.h"
#include "update/registry.h"
#include "update/statistics.h"

namespace trireme {
namespace {

/// A reply is b (x - centre) for each part.
class ScaledElasticServer final : public CentralServer {
 public:
  static constexpr int kPull = kFirstOperation;

  ScaledElasticServer(const ShatOptions& options, int replicas)
      : CentralServer(options.shards, options.compression), options_(options), replicas_(replicas) {}

 protected:
  std::optional<Reply> apply(CentralShard& shard, int index, int replica, CentralRequest& request, double) override {
    check_brings_all(shard, request);
    // before a replica's first exchange there is none to count from
    const double others = request.number(0) > 0 ? replicas_ - 1.0 : double(shard.version - request.version_read);
    const double speed = std::pow((others + 1) / replicas_, options_.heterogeneity);
    const double a = std::min(1.0, options_.beta / replicas_ * speed), b = std::min(1.0, options_.pull * speed);
    Reply reply;
    for (size_t p = 0; p < request.parts.size(); ++p) {
      at::Tensor distance = request.parts[p] - shard.weights[p];
      shard.weights[p].add_(distance, a);
      reply.tensors.push_back(distance.mul_(b));
    }
    mix_statistics(shard.statistics, request.statistics, a);
    ++shard.version;
    if (knows_replicas()) set_known(index, replica, differences(request.parts, reply.tensors));
    return reply;
  }

  bool takes_weights() const override { return true; }

 private:
  const ShatOptions options_;
  const int replicas_;
};

class ShatReplica final : public CentralReplica {
 public:
  ShatReplica(const ShatOptions& options, Hub& hub)
      : CentralReplica(hub, options.shards), options_(options), sent_(options.compression) {}

  void begin(ReplicaState& state) override {
    CentralReplica::begin(state);
    sent_.mark(state.weights);
  }

  Before before_step(const StepFacts& facts, ReplicaState& state) override {
    if (facts.step % options_.period != 0) return {};
    client_.exchange({.operation = ScaledElasticServer::kPull,
                      .tensors = sent_.to_send(state.weights),
                      .feedback = sent_.feedback(),
                      .statistics = state.statistics,
                      .numbers = {is_first_ ? 1.0 : 0.0},
                      .reads = true},
                     state.weights, [](at::Tensor& mine, const at::Tensor& distance) { mine.sub_(distance); });
    sent_.mark(state.weights);
    is_first_ = false;
    return {.wrote = true};
  }

  bool after_step(const StepFacts&, ReplicaState&) override { return false; }

  void finish(ReplicaState& state) override { take_result(state); }

 protected:
  void fields(StateFields& fields, const ReplicaState& state) override {
    client_.fields(fields);
    sent_.fields(fields, state.weights);
    fields.value("has not exchanged", is_first_);
  }

 private:
  const ShatOptions options_;
  SentWeights sent_;
  bool is_first_ = true;
};

}  // namespace

std::string ShatOptions::description() const {
  return fmt::format("shat,period={},beta={},pull={},heterogeneity={},shards={}{}", period, beta, pull, heterogeneity,
                     shards, text_of(compression));
}

std::unique_ptr<UpdatePolicy> shat(const ShatOptions& options, int replicas) {
  return std::make_unique<CentralPolicy<ScaledElasticServer, ShatReplica, ShatOptions>>(options, replicas);
}

namespace {

std::unique_ptr<UpdatePolicy> read_shat(const ConfigTable& update, const RunFacts& facts) {
  ShatOptions options;
  options.period = update.get_int("period", options.period, 1);
  options.beta = update.get_double("beta", options.beta, 0);
  options.pull = update.get_double("pull", options.pull, 0);
  options.heterogeneity = update.get_double("heterogeneity", options.heterogeneity, 0);
  options.shards = read_shards(update, options.shards);
  options.compression = read_compression(update);
  for (const char* key : {"beta", "pull"})
    if (const double value = key == std::string("beta") ? options.beta : options.pull; !(value <= 1))
      update.fail(key, "replicas and centre overshoot above 1", "choose 0 to 1");
  return shat(options, facts.replicas);
}

}  // namespace

constinit const PolicyKind kShat = {
    .name = "shat",
    .description = "easgd whose pulls follow the number and speeds of replicas (Ko and Kim, 2022)",
    .read = read_shat,
};

}  // namespace trireme
