#include "update/async_average.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "update/cadence.h"
#include "update/central_server.h"
#include "update/registry.h"
#include "update/statistics.h"

namespace trireme {
namespace {

using Share = AsyncAverageOptions::Share;

/// Numbers of a merge request: samples since the replica read the shard; samples that had been merged into the shard
/// when the replica read it. Number of the reply: samples merged up to now.
class MergingServer final : public CentralServer {
 public:
  static constexpr int kMerge = kFirstOperation;

  MergingServer(const AsyncAverageOptions& options, int)
      : CentralServer(options.shards, options.compression), share_(options.share), samples_(size_t(options.shards)) {}

 protected:
  std::optional<Reply> apply(CentralShard& shard, int index, int replica, CentralRequest& request, double) override {
    check_brings_all(shard, request);
    double& merged = samples_[size_t(index)];
    const double samples = request.number(0), others = merged - request.number(1);
    const double share = share_ == Share::half ? 0.5 : samples / (samples + others);
    for (size_t p = 0; p < request.parts.size(); ++p) shard.weights[p].mul_(1 - share).add_(request.parts[p], share);
    mix_statistics(shard.statistics, request.statistics, share);
    ++shard.version;
    merged += samples;
    if (knows_replicas()) set_known(index, replica, copies_of_weights(shard));
    return Reply{.tensors = copies_of_values(shard), .numbers = {merged}};
  }

  void server_fields(StateFields& fields, double) override { fields.value("samples merged", samples_); }
  bool takes_weights() const override { return true; }

 private:
  const Share share_;
  /// by shard: samples merged so far; each is accessed by the current visitor of the shard
  std::vector<double> samples_;
};

class AsyncReplica final : public CentralReplica {
 public:
  AsyncReplica(const AsyncAverageOptions& options, Hub& hub)
      : CentralReplica(hub, options.shards),
        options_(options),
        cadence_(options.every),
        merged_(size_t(options.shards)),
        sent_(options.compression) {}

  void begin(ReplicaState& state) override {
    CentralReplica::begin(state);
    sent_.mark(state.weights);
  }

  bool after_step(const StepFacts& facts, ReplicaState& state) override {
    samples_ += double(facts.samples);
    if (!cadence_.due_after(facts)) return false;
    merge(state);
    return true;
  }

  void settle(ReplicaState& state) override {
    if (options_.share == Share::by_samples && cadence_.has_pending()) merge(state);
    cadence_.settle();
  }

  void finish(ReplicaState& state) override {
    settle(state);
    if (options_.share == Share::half) {
      hub_.average(state.weights);
      return average_statistics(state.statistics, std::nullopt, {}, hub_);
    }
    take_result(state);
  }

 protected:
  void fields(StateFields& fields, const ReplicaState& state) override {
    client_.fields(fields);
    cadence_.fields(fields);
    sent_.fields(fields, state.weights);
    fields.value("samples since the model was read", samples_);
    fields.value("samples in the model", merged_);
  }

 private:
  void merge(ReplicaState& state) {
    const auto told = client_.exchange(
        {.operation = MergingServer::kMerge,
         .tensors = sent_.to_send(state.weights),
         .feedback = sent_.feedback(),
         .statistics = state.statistics,
         .numbers = {samples_},
         .of_shards = merged_,
         .reads = true},
        state.weights, [](at::Tensor& mine, const at::Tensor& model) { mine.copy_(model); }, state.statistics);
    sent_.mark(state.weights);
    for (size_t s = 0; s < told.size(); ++s) merged_[s] = told[s].front();
    samples_ = 0;
    if (options_.moments == Moments::reset) reset_moments(state);
  }

  const AsyncAverageOptions options_;
  Cadence cadence_;
  double samples_ = 0;          ///< samples since the model was read
  std::vector<double> merged_;  ///< by shard: samples in the model when it was read
  SentWeights sent_;
};

}  // namespace

std::string AsyncAverageOptions::description() const {
  return fmt::format("async-average,every={},share={},moments={},shards={}{}", text_of(every),
                     share == Share::half ? "half" : "samples", text_of(moments), shards, text_of(compression));
}

std::unique_ptr<UpdatePolicy> async_average(const AsyncAverageOptions& options) {
  return std::make_unique<CentralPolicy<MergingServer, AsyncReplica, AsyncAverageOptions>>(options, 0);
}

namespace {

std::unique_ptr<UpdatePolicy> read_async_average(const ConfigTable& update, const RunFacts&) {
  AsyncAverageOptions options;
  options.every = read_whole_length(update, "every", options.every, 1);
  options.share = update.get_choice("share", "half", {"half", "samples"}) == "half" ? Share::half : Share::by_samples;
  options.moments = read_moments(update, options.moments, false);
  options.shards = read_shards(update, options.shards);
  options.compression = read_compression(update);
  return async_average(options);
}

}  // namespace

constinit const PolicyKind kAsyncAverage = {
    .name = "async-average",
    .description = "weights enter the shared ones as soon as a replica is ready (dislib, 2025)",
    .read = read_async_average,
};

}  // namespace trireme
