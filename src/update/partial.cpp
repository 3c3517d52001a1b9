#include "update/partial.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "update/cadence.h"
#include "update/central_server.h"
#include "update/statistics.h"

namespace trireme {
namespace {

/// add: into the round that is open; its reply says which. wait (its number: a round): for the weights when that round is over. leave:
/// makes no more rounds.
class RoundServer final : public CentralServer {
 public:
  static constexpr UpdatePolicy::Stops kStops = UpdatePolicy::Stops::together;
  static constexpr int kAdd = kFirstOperation, kWait = kFirstOperation + 1, kLeave = kFirstOperation + 2;

  RoundServer(const PartialOptions& options, int replicas)
      : CentralServer(1), quorum_(options.quorum > 0 ? options.quorum : replicas), trains_(size_t(replicas), 1) {}

  /// What it has added stays.
  void lose(int replica, double) override { leave(replica); }

 protected:
  std::optional<Reply> apply(CentralShard& shard, int, int replica, CentralRequest& request, double) override {
    if (is_complete()) close(shard);  // somebody has been lost
    if (request.operation == kWait) {
      if (round_ <= request.whole_number(0)) return std::nullopt;
      Reply reply{.tensors = copies_of_weights(shard)};
      for (at::Tensor& tensor : tensors_of(copies_of(shard.statistics))) reply.tensors.push_back(std::move(tensor));
      return reply;
    }
    const Reply reply{.numbers = {double(round_)}};
    if (request.operation == kLeave) leave(replica);
    if (request.operation == kAdd) {
      check_brings_all(shard, request);
      add(request);
    }
    if (is_complete()) close(shard);
    return reply;
  }

  void server_fields(StateFields& fields, double) override {
    check_internal(count_ == 0, "no round is open between two steps of all replicas");
    fields.value("round", round_);
    fields.value("replicas that train", trains_);
  }

  void begin_anew(int replica) override { trains_[size_t(replica)] = 1; }

 private:
  void leave(int replica) { trains_[size_t(replica)] = 0; }

  bool is_complete() const { return count_ > 0 && count_ >= std::min<int64_t>(quorum_, std::count(trains_.begin(), trains_.end(), 1)); }

  void add(const CentralRequest& request) {
    ++count_;
    if (count_ == 1) {
      sum_.clear();
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
  }

  // all belong to whoever visits the one shard
  const int quorum_;
  std::vector<int64_t> trains_;  ///< by replica: 1, or 0 where it makes no more rounds
  int count_ = 0;  ///< added in this round
  int64_t round_ = 0;
  std::vector<at::Tensor> sum_;
  std::vector<RunningStatistics> statistics_;
};

class PartialReplica final : public ReplicaPolicy {
 public:
  PartialReplica(const PartialOptions& options, Hub& hub) : ReplicaPolicy(hub), client_(hub, 1), cadence_(options.every) {}

  void begin(ReplicaState& state) override { client_.begin(state, resumes()); }

  bool after_step(const StepFacts& facts, ReplicaState& state) override {
    if (!cadence_.due_after(facts)) return false;
    const auto told = client_.exchange({.operation = RoundServer::kAdd, .tensors = state.weights, .statistics = state.statistics}, {}, {});
    client_.exchange({.operation = RoundServer::kWait, .numbers = {told.front().front()}, .reads = true}, state.weights,
                     [](at::Tensor& mine, const at::Tensor& model) { mine.copy_(model); }, state.statistics);
    return true;
  }

  void settle(ReplicaState&) override {
    if (!has_left_) client_.exchange({.operation = RoundServer::kLeave}, {}, {});
    has_left_ = true;
  }

  void finish(ReplicaState& state) override {
    settle(state);
    hub_.average(state.weights);
    average_statistics(state.statistics, std::nullopt, {}, hub_);
  }

  ModelValues values_for_evaluation(ReplicaState& state) override { return client_.read(state); }

  void leave(ReplicaState&) override {
    Hub::Unmetered gone(hub_);
    client_.exchange({.operation = RoundServer::kLeave}, {}, {});
  }

 protected:
  void fields(StateFields& fields, const ReplicaState&) override {
    client_.fields(fields);
    cadence_.fields(fields);
    fields.value("has left", has_left_);
  }

 private:
  CentralClient client_;
  Cadence cadence_;
  bool has_left_ = false;
};

}  // namespace

std::string PartialOptions::description() const { return fmt::format("partial,every={},quorum={}", text_of(every), quorum); }

std::unique_ptr<UpdatePolicy> partial_average(const PartialOptions& options, int replicas) {
  return std::make_unique<CentralPolicy<RoundServer, PartialReplica, PartialOptions>>(options, replicas);
}

std::unique_ptr<UpdatePolicy> read_partial(const ConfigTable& update, const RunFacts& facts) {
  PartialOptions options;
  options.every = read_whole_length(update, "every", options.every, 1);
  options.quorum = int(update.get_int("quorum", options.quorum, 0));
  if (options.quorum > facts.replicas)
    update.fail("quorum", fmt::format("there are {} replicas", facts.replicas), "choose at most as many; 0 means all");
  return partial_average(options, facts.replicas);
}

}  // namespace trireme
