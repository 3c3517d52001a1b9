#include "update/async_average.h"

#include <ATen/ATen.h>

#include "update/cadence.h"
#include "update/central_server.h"
#include "update/statistics.h"

namespace trireme {
namespace {

using Share = AsyncAverageOptions::Share;

/// Numbers of a merge: samples since the replica read the shard, samples that were merged into it by then. Of its reply: samples merged now.
class MergingServer final : public CentralServer {
 public:
  static constexpr int kMerge = kFirstOperation;

  MergingServer(Share share, int shards) : CentralServer(shards), share_(share), samples_(size_t(shards)) {}

 protected:
  std::optional<Reply> apply(CentralShard& shard, int index, int, CentralRequest& request, double) override {
    check_brings_all(shard, request);
    double& merged = samples_[size_t(index)];
    const double samples = request.number(0), others = merged - request.number(1);
    const double share = share_ == Share::half ? 0.5 : samples / (samples + others);
    for (size_t p = 0; p < request.parts.size(); ++p) shard.weights[p].mul_(1 - share).add_(request.parts[p], share);
    mix_statistics(shard.statistics, request.statistics, share);
    ++shard.version;
    merged += samples;
    Reply reply{.tensors = copies_of_weights(shard), .numbers = {merged}};
    for (at::Tensor& tensor : tensors_of(copies_of(shard.statistics))) reply.tensors.push_back(std::move(tensor));
    return reply;
  }

 private:
  const Share share_;
  std::vector<double> samples_;  ///< by shard: merged so far; each belongs to the visitor of the shard
};

class AsyncReplica final : public ReplicaPolicy {
 public:
  AsyncReplica(const AsyncAverageOptions& options, Hub& hub) : options_(options), hub_(hub), client_(hub, options.shards), cadence_(options.every), merged_(size_t(options.shards)) {}

  void begin(ReplicaState& state) override { client_.begin(state); }

  bool after_step(const StepFacts& facts, ReplicaState& state) override {
    samples_ += double(facts.samples);
    if (!cadence_.due_after(facts)) return false;
    merge(state);
    return true;
  }

  void finish(ReplicaState& state) override {
    if (options_.share == Share::half) {
      hub_.average(state.weights);
      return average_statistics(state.statistics, std::nullopt, {}, hub_);
    }
    if (cadence_.has_pending()) merge(state);
    cadence_.settle();
    hub_.barrier();
    client_.fetch(state.weights);
    write_values(client_.read(state), state);
  }

  ModelValues values_for_evaluation(ReplicaState& state) override { return client_.read(state); }

 private:
  void merge(ReplicaState& state) {
    const auto told = client_.exchange({.operation = MergingServer::kMerge, .tensors = state.weights, .statistics = state.statistics,
                                        .numbers = {samples_}, .of_shards = merged_, .reads = true},
                                       state.weights, [](at::Tensor& mine, const at::Tensor& model) { mine.copy_(model); },
                                       state.statistics);
    for (size_t s = 0; s < told.size(); ++s) merged_[s] = told[s].front();
    samples_ = 0;
    if (options_.moments == Moments::reset) reset_moments(state);
  }

  const AsyncAverageOptions options_;
  Hub& hub_;
  CentralClient client_;
  Cadence cadence_;
  double samples_ = 0;          ///< since the model was read
  std::vector<double> merged_;  ///< by shard: samples in what was read of the model
};

class AsyncAverage final : public UpdatePolicy {
 public:
  explicit AsyncAverage(const AsyncAverageOptions& options) : options_(options), server_(options.share, options.shards) {}
  ShardServer* server() override { return &server_; }
  WhenLost when_lost() const override { return WhenLost::goes_on; }
  std::unique_ptr<ReplicaPolicy> for_replica(Hub& hub) override { return std::make_unique<AsyncReplica>(options_, hub); }

 private:
  const AsyncAverageOptions options_;
  MergingServer server_;
};

}  // namespace

std::unique_ptr<UpdatePolicy> async_average(const AsyncAverageOptions& options) { return std::make_unique<AsyncAverage>(options); }

std::unique_ptr<UpdatePolicy> read_async_average(const ConfigTable& update, const RunFacts&) {
  AsyncAverageOptions options;
  options.every = read_whole_length(update, "every", options.every, 1);
  options.share = update.get_choice("share", "half", {"half", "samples"}) == "half" ? Share::half : Share::by_samples;
  options.moments = read_moments(update, options.moments, false);
  options.shards = read_shards(update, options.shards);
  return async_average(options);
}

}  // namespace trireme
