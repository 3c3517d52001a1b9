#include "update/partial.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "update/cadence.h"
#include "update/central_server.h"
#include "update/registry.h"
#include "update/statistics.h"

namespace trireme {
namespace {

/// Requests: `add` adds weights to the open round; its reply has the round's number. `wait` (number: a round) waits
/// until that round has ended and replies with the weights, or replies that the replica is held. `leave`: the replica
/// makes no further rounds. `return`: it makes rounds again.
class RoundServer final : public CentralServer {
 public:
  static constexpr UpdatePolicy::Stops kStops = UpdatePolicy::Stops::held;
  static constexpr int kAdd = kFirstOperation, kWait = kFirstOperation + 1, kLeave = kFirstOperation + 2,
                       kReturn = kFirstOperation + 3;

  RoundServer(const PartialOptions& options, int replicas)
      : CentralServer(1, options.compression),
        quorum_(options.quorum > 0 ? options.quorum : replicas),
        trains_(size_t(replicas), 1) {}

  /// What the replica has added remains in the round.
  void lose(int replica, double) override { leave(replica); }

 protected:
  std::optional<Reply> apply(CentralShard& shard, int index, int replica, CentralRequest& request, double) override {
    if (is_complete()) close(shard);  // a replica may have been lost
    if (request.operation == kWait) {
      if (holds()) return Reply{.numbers = {0}};
      if (round_ <= request.whole_number(0)) return std::nullopt;
      if (knows_replicas()) set_known(index, replica, copies_of_weights(shard));
      return Reply{.tensors = copies_of_values(shard), .numbers = {1}};
    }
    const Reply reply{.numbers = {double(round_)}};
    if (request.operation == kLeave) leave(replica);
    if (request.operation == kReturn) trains_[size_t(replica)] = 1;
    if (request.operation == kAdd) {
      check_brings_all(shard, request);
      add(request);
    }
    if (is_complete()) close(shard);
    return reply;
  }

  void server_fields(StateFields& fields, double) override {
    fields.value("round", round_);
    fields.value("replicas that train", trains_);
    fields.value("round sum replicas", count_);
  }

  void shard_fields(StateFields& fields, int, CentralShard& shard) override {
    fields.weights_if_any("round sum", sum_, shard.weights);
    fields.statistics("round sum", statistics_);
  }

  void begin_anew(int replica) override { trains_[size_t(replica)] = 1; }
  bool takes_weights() const override { return true; }

 private:
  void leave(int replica) { trains_[size_t(replica)] = 0; }

  bool is_complete() const {
    return count_ > 0 && count_ >= std::min<int64_t>(quorum_, std::count(trains_.begin(), trains_.end(), 1));
  }

  void add(const CentralRequest& request) {
    ++count_;
    if (count_ == 1) {
      for (const at::Tensor& part : request.parts) sum_.push_back(part.clone());
      statistics_ = copies_of(request.statistics);
      return;
    }
    for (size_t p = 0; p < sum_.size(); ++p) sum_[p].add_(request.parts[p]);
    mix_statistics(statistics_, request.statistics, 1.0 / count_);
  }

  void close(CentralShard& shard) {
    for (size_t p = 0; p < sum_.size(); ++p) shard.weights[p].copy_(sum_[p]).div_(count_);
    copy_statistics(statistics_, shard.statistics);
    ++shard.version;
    ++round_;
    count_ = 0;
    sum_.clear();
    statistics_.clear();
  }

  // accessed only by the current visitor of the one shard
  const int quorum_;
  std::vector<int64_t> trains_;  ///< by replica: 1, or 0 if it makes no more rounds
  int count_ = 0;                ///< replicas added in this round
  int64_t round_ = 0;
  std::vector<at::Tensor> sum_;
  std::vector<RunningStatistics> statistics_;
};

class PartialReplica final : public CentralReplica {
 public:
  PartialReplica(const PartialOptions& options, Hub& hub)
      : CentralReplica(hub, 1), cadence_(options.every), sent_(options.compression) {}

  void begin(ReplicaState& state) override {
    CentralReplica::begin(state);
    sent_.mark(state.weights);
  }

  Before before_step(const StepFacts&, ReplicaState& state) override {
    if (std::exchange(has_left_, false))
      client_.exchange({.operation = RoundServer::kReturn}, {}, {});  // the run has been extended
    if (waits_for_ < 0) return {};
    const bool is_over = wait(state);
    return {.wrote = is_over, .held = !is_over};
  }

  bool after_step(const StepFacts& facts, ReplicaState& state) override {
    if (!cadence_.due_after(facts)) return false;
    const auto told = client_.exchange({.operation = RoundServer::kAdd,
                                        .tensors = sent_.to_send(state.weights),
                                        .feedback = sent_.feedback(),
                                        .statistics = state.statistics},
                                       {}, {});
    waits_for_ = int64_t(told.front().front());
    return wait(state);
  }

  void release_waiting() override { client_.release_waiting(); }

  void settle(ReplicaState& state) override {
    if (has_left_ || (waits_for_ >= 0 && !wait(state))) return;
    client_.exchange({.operation = RoundServer::kLeave}, {}, {});
    has_left_ = true;
  }

  void finish(ReplicaState& state) override {
    settle(state);
    hub_.average(state.weights);
    average_statistics(state.statistics, std::nullopt, {}, hub_);
  }

  void leave(ReplicaState&) override {
    Hub::Unmetered gone(hub_);
    client_.exchange({.operation = RoundServer::kLeave}, {}, {});
  }

 protected:
  void fields(StateFields& fields, const ReplicaState& state) override {
    client_.fields(fields);
    cadence_.fields(fields);
    sent_.fields(fields, state.weights);
    fields.value("waits for round", waits_for_);
    fields.value("has left", has_left_);
  }

 private:
  /// Waits for the end of the round that its weights were added to. Returns true if the round has ended and the weights
  /// are the round's; false if the replica is held.
  bool wait(ReplicaState& state) {
    const auto told = client_.exchange(
        {.operation = RoundServer::kWait, .numbers = {double(waits_for_)}, .reads = true}, state.weights,
        [](at::Tensor& mine, const at::Tensor& model) { mine.copy_(model); }, state.statistics);
    if (told.front().front() == 0) return false;
    waits_for_ = -1;
    sent_.mark(state.weights);
    return true;
  }

  Cadence cadence_;
  int64_t waits_for_ = -1;  ///< number of a round; -1: none
  bool has_left_ = false;
  SentWeights sent_;
};

}  // namespace

std::string PartialOptions::description() const {
  return fmt::format("partial,every={},quorum={}{}", text_of(every), quorum, text_of(compression));
}

std::unique_ptr<UpdatePolicy> partial_average(const PartialOptions& options, int replicas) {
  return std::make_unique<CentralPolicy<RoundServer, PartialReplica, PartialOptions>>(options, replicas);
}

namespace {

std::unique_ptr<UpdatePolicy> read_partial(const ConfigTable& update, const RunFacts& facts) {
  PartialOptions options;
  options.every = read_whole_length(update, "every", options.every, 1);
  options.compression = read_compression(update);
  options.quorum = int(update.get_int("quorum", options.quorum, 0));
  if (options.quorum > facts.replicas)
    update.fail("quorum", fmt::format("there are {} replicas", facts.replicas), "choose at most as many; 0 means all");
  return partial_average(options, facts.replicas);
}

}  // namespace

constinit const PolicyKind kPartialAverage = {
    .name = "partial",
    .description = "replicas add up their weights; when enough have arrived, these take the mean (dislib, 2025)",
    .read = read_partial,
};

}  // namespace trireme
