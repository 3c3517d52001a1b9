#include "update/fedbuff.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "trireme/error.h"
#include "update/cadence.h"
#include "update/central_server.h"
#include "update/registry.h"
#include "update/statistics.h"

namespace trireme {
namespace {

/// The updates that have arrived at a shard since its weights changed last.
struct Buffer {
  int64_t count = 0;
  std::vector<at::Tensor> sum;                ///< by part, in double; empty or zero if there are none
  std::vector<RunningStatistics> statistics;  ///< their mean

  void add(std::span<const at::Tensor> update, std::span<const RunningStatistics> of_client, double factor) {
    if (count++ == 0) {
      sum.clear();
      for (const at::Tensor& part : update) sum.push_back(at::zeros_like(part, at::kDouble));
      statistics = copies_of(of_client);
    }
    for (size_t p = 0; p < sum.size(); ++p) sum[p].add_(update[p].to(at::kDouble), factor);
    mix_statistics(statistics, of_client, 1.0 / double(count));
  }
};

/// Requests: `give` brings a client's update; its reply has the newest weights. `flush` empties the buffer.
class BufferingServer final : public CentralServer {
 public:
  static constexpr int kGive = kFirstOperation, kFlush = kFirstOperation + 1;

  BufferingServer(const FedbuffOptions& options, int)
      : CentralServer(options.shards, options.compression), options_(options), buffers_(size_t(options.shards)) {}

 protected:
  std::optional<Reply> apply(CentralShard& shard, int index, int, CentralRequest& request, double) override {
    Buffer& buffer = buffers_[size_t(index)];
    if (request.operation == kFlush) {
      if (buffer.count > 0) empty(buffer, shard);
      return Reply{};
    }
    check_brings_all(shard, request);
    const double staleness = double(shard.version - request.version_read);
    if (staleness < 0)
      fail_run({"a request to the parameter server", "it has read weights that do not exist yet", "",
                "use the same policy"});
    request.is_used = all_finite(request.parts) && all_finite(tensors_of(request.statistics));
    if (request.is_used)
      buffer.add(request.parts, request.statistics, options_.discounts ? 1 / std::sqrt(1 + staleness) : 1);
    if (buffer.count == options_.buffer) empty(buffer, shard);
    return Reply{.tensors = copies_of_values(shard)};
  }

  void shard_fields(StateFields& fields, int index, CentralShard& shard) override {
    Buffer& buffer = buffers_[size_t(index)];
    fields.value(fmt::format("buffered updates {}", index), buffer.count);
    if (buffer.sum.empty())
      for (const at::Tensor& part : shard.weights) buffer.sum.push_back(at::zeros_like(part, at::kDouble));
    fields.weights("buffer", buffer.sum);
    if (index == 0) fields.statistics("buffer", buffer.statistics);
  }

 private:
  void empty(Buffer& buffer, CentralShard& shard) const {
    for (size_t p = 0; p < shard.weights.size(); ++p)
      shard.weights[p].add_(buffer.sum[p].mul_(options_.learning_rate / double(buffer.count)));
    copy_statistics(buffer.statistics, shard.statistics);
    buffer = {};
    ++shard.version;
  }

  const FedbuffOptions options_;
  std::vector<Buffer> buffers_;  ///< by shard; each is accessed by the current visitor of the shard
};

class BufferedClient final : public CentralReplica {
 public:
  BufferedClient(const FedbuffOptions& options, Hub& hub)
      : CentralReplica(hub, options.shards),
        options_(options),
        cadence_(options.local),
        feedback_(options.compression, "updates") {}

  void begin(ReplicaState& state) override {
    CentralReplica::begin(state);
    if (read_.empty()) note_read(state);
  }

  bool after_step(const StepFacts& facts, ReplicaState& state) override {
    if (!cadence_.due_after(facts)) return false;
    give(state);
    return true;
  }

  void settle(ReplicaState& state) override {
    if (cadence_.has_pending()) give(state);
    cadence_.settle();
  }

  void finish(ReplicaState& state) override {
    settle(state);
    hub_.barrier();
    client_.exchange({.operation = BufferingServer::kFlush}, {}, {});
    take_result(state);
  }

 protected:
  void fields(StateFields& fields, const ReplicaState& state) override {
    client_.fields(fields);
    cadence_.fields(fields);
    fields.weights_if_any("weights that were read", read_, state.weights);
    feedback_.fields(fields, state.weights);
  }

 private:
  void note_read(const ReplicaState& state) {
    read_.resize(state.weights.size());
    for (size_t b = 0; b < read_.size(); ++b) {
      if (!read_[b].defined()) read_[b] = at::empty_like(state.weights[b]);
      read_[b].copy_(state.weights[b]);
    }
  }

  void give(ReplicaState& state) {
    for (size_t b = 0; b < read_.size(); ++b) at::sub_out(read_[b], state.weights[b], read_[b]);
    client_.exchange(
        {.operation = BufferingServer::kGive,
         .tensors = read_,
         .feedback = feedback_.if_wanted(),
         .statistics = state.statistics,
         .reads = true},
        state.weights, [](at::Tensor& mine, const at::Tensor& model) { mine.copy_(model); }, state.statistics);
    note_read(state);
    if (options_.moments == Moments::reset) reset_moments(state);
  }

  const FedbuffOptions options_;
  Cadence cadence_;
  ErrorFeedback feedback_;
  std::vector<at::Tensor> read_;  ///< the weights that were read last
};

}  // namespace

std::string FedbuffOptions::description() const {
  return fmt::format("fedbuff,local={},buffer={},server_learning_rate={},staleness={},moments={},shards={}{}",
                     text_of(local), buffer, learning_rate, discounts ? "discounted" : "ignored", text_of(moments),
                     shards, text_of(compression));
}

std::unique_ptr<UpdatePolicy> fedbuff(const FedbuffOptions& options) {
  return std::make_unique<CentralPolicy<BufferingServer, BufferedClient, FedbuffOptions>>(options, 0);
}

namespace {

std::unique_ptr<UpdatePolicy> read_fedbuff(const ConfigTable& update, const RunFacts&) {
  FedbuffOptions options;
  options.local = read_whole_length(update, "local", options.local, 1);
  options.buffer = update.get_int("buffer", options.buffer, 1);
  options.learning_rate = update.get_double("server_learning_rate", options.learning_rate, 0);
  options.discounts = update.get_choice("staleness", "discounted", {"discounted", "ignored"}) == "discounted";
  options.moments = read_moments(update, options.moments, false);
  options.shards = read_shards(update, options.shards);
  options.compression = read_compression(update);
  return fedbuff(options);
}

}  // namespace

constinit const PolicyKind kFedbuff = {
    .name = "fedbuff",
    .description = "clients at their own pace, a server that waits for some updates (Nguyen et al., 2022)",
    .read = read_fedbuff,
};

}  // namespace trireme
