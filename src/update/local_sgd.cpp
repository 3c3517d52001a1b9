#include "update/local_sgd.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <utility>

#include "update/cadence.h"
#include "update/error_feedback.h"
#include "update/registry.h"
#include "update/statistics.h"

namespace trireme {
namespace {

class LocalSgdReplica final : public ReplicaPolicy {
 public:
  LocalSgdReplica(const LocalSgdOptions& options, Hub& hub)
      : ReplicaPolicy(hub),
        options_(options),
        cadence_(options.every, options.post_local_after),
        mean_(options.compression, hub) {}

  void begin(ReplicaState& state) override { mean_.begin(state); }

  bool after_step(const StepFacts& facts, ReplicaState& state) override {
    samples_ += double(facts.samples);
    const bool due = cadence_.due_after(facts);
    if (options_.overlap > 0) return overlap(facts, due, state);
    if (!due) return false;
    agree(state);
    return hub_.replicas() > 1;
  }

  void finish(ReplicaState& state) override {
    bool pending;
    {
      Hub::Unmetered control(hub_);
      pending = hub_.total(cadence_.has_pending() || options_.overlap > 0 ? 1 : 0) > 0;
    }
    if (travels()) take(state);
    if (pending) agree(state, /*is_last=*/true);
    else if (mean_.lacks_errors()) mean_.average_exactly(state.weights);
    cadence_.settle();
  }

  ModelValues values_for_evaluation(ReplicaState& state) override {
    Hub::Unmetered evaluation(hub_);
    ModelValues values = values_of(state);
    // All replicas call this after the same step: either all have just averaged, and the mean changes nothing, or none
    // has.
    if (mean_.is_wanted()) mean_.look_ahead(values.weights);
    else average(values.weights, weight());
    average_statistics(values.statistics, weight(), {}, hub_);
    return values;
  }

 protected:
  void fields(StateFields& fields, const ReplicaState& state) override {
    cadence_.fields(fields);
    mean_.fields(fields, state.weights);
    fields.value("samples since the average", samples_);
    if (under_way_) arrive();
    fields.weights_if_any("weights that set out", set_out_, state.weights);
    fields.weights_if_any("average to come", means_, state.weights);
    fields.value("average is taken after step", take_after_);
  }

 private:
  std::optional<double> weight() const {
    return options_.weight_by_samples ? std::optional(samples_ > 0 ? samples_ : 1.0) : std::nullopt;
  }

  void average(std::span<at::Tensor> tensors, std::optional<double> weight) {
    if (weight) hub_.weighted_average(tensors, *weight);
    else hub_.average(tensors);
  }

  /// Returns true if an average was applied.
  bool overlap(const StepFacts& facts, bool due, ReplicaState& state) {
    const bool comes = travels() && facts.step >= take_after_;
    if (comes) take(state);
    if (due && hub_.replicas() > 1) {
      for (const at::Tensor& w : state.weights) set_out_.push_back(w.clone());
      std::vector<at::Tensor> sent;
      for (const at::Tensor& w : set_out_) sent.push_back(w.clone());
      under_way_ = hub_.begin_average(std::move(sent));
      take_after_ = facts.step + options_.overlap;
    }
    return comes;
  }

  /// Sets the weights to the mean at the beginning of the exchange plus this replica's change since then.
  void take(ReplicaState& state) {
    if (under_way_) arrive();
    for (size_t b = 0; b < state.weights.size(); ++b) state.weights[b].sub_(set_out_[b]).add_(means_[b]);
    set_out_.clear();
    means_.clear();
  }

  bool travels() const { return !set_out_.empty(); }

  void arrive() {
    means_ = under_way_->wait();
    under_way_.reset();
  }

  /// `is_last`: the run's result, from which nothing may be missing.
  void agree(ReplicaState& state, bool is_last = false) {
    if (!mean_.is_wanted()) average(state.weights, weight());
    else if (is_last) mean_.average_exactly(state.weights);
    else mean_.average(state.weights);
    if (options_.average_statistics) average_statistics(state.statistics, weight(), {}, hub_);
    if (options_.moments == Moments::averaged)
      for (std::vector<at::Tensor>& moments : state.moments) average(moments, weight());
    if (options_.moments == Moments::reset) reset_moments(state);
    samples_ = 0;
  }

  const LocalSgdOptions options_;
  Cadence cadence_;
  CompressedMean mean_;
  double samples_ = 0;                  ///< samples since the last average
  std::unique_ptr<Pending> under_way_;  ///< null: no average is in progress, or it has arrived
  /// the weights at the beginning of the exchange; empty: no average is to be applied
  std::vector<at::Tensor> set_out_;
  std::vector<at::Tensor> means_;  ///< the average, if it has arrived before it is applied
  int64_t take_after_ = 0;         ///< 0-based step after which the average is applied
};

class LocalSgd final : public UpdatePolicy {
 public:
  explicit LocalSgd(const LocalSgdOptions& options) : options_(options) {}
  std::string description() const override {
    return fmt::format(
        "local-sgd,every={},post_local_after={},weights={},moments={},overlap={},average_statistics={}{}",
        text_of(options_.every), text_of(options_.post_local_after), options_.weight_by_samples ? "samples" : "equal",
        text_of(options_.moments), options_.overlap, options_.average_statistics,
        trireme::text_of(options_.compression));
  }
  bool evaluates_together() const override { return true; }
  std::unique_ptr<ReplicaPolicy> for_replica(Hub& hub) override {
    return std::make_unique<LocalSgdReplica>(options_, hub);
  }

 private:
  const LocalSgdOptions options_;
};

}  // namespace

const char* text_of(Moments moments) {
  return moments == Moments::kept ? "kept" : moments == Moments::reset ? "reset" : "averaged";
}

void reset_moments(ReplicaState& state) {
  if (state.restart_optimizer) return state.restart_optimizer();
  for (std::vector<at::Tensor>& moments : state.moments)
    for (at::Tensor& moment : moments) moment.zero_();
}

Moments read_moments(const ConfigTable& update, Moments fallback, bool may_average) {
  const std::vector<std::string> words = {
      "kept", "reset", "averaged"};  // not in the order of the enumeration, because the last may be left out
  const std::string word =
      update.get_choice("moments", text_of(fallback), may_average ? words : std::vector<std::string>{"kept", "reset"});
  return word == "kept" ? Moments::kept : word == "reset" ? Moments::reset : Moments::averaged;
}

std::unique_ptr<UpdatePolicy> local_sgd(const LocalSgdOptions& options) { return std::make_unique<LocalSgd>(options); }

namespace {

std::unique_ptr<UpdatePolicy> read_local_sgd(const ConfigTable& update, const RunFacts&) {
  LocalSgdOptions options;
  options.every = read_whole_length(update, "every", options.every, 1);
  options.post_local_after = read_whole_length(update, "post_local_after", options.post_local_after, 0);
  options.weight_by_samples = update.get_choice("weights", "equal", {"equal", "samples"}) == "samples";
  options.moments = read_moments(update, options.moments, true);
  options.average_statistics = update.get_bool("average_statistics", options.average_statistics);
  options.overlap = update.get_int("overlap", options.overlap, 0);
  options.compression = read_compression(update);
  if (options.compression && (options.weight_by_samples || options.moments == Moments::averaged || options.overlap > 0))
    update.fail("compression", "only weights that count equally are compressed, and replicas wait for them",
                "leave out weights, overlap and moments = \"averaged\", or compression");
  if (options.overlap == 0) return local_sgd(options);
  if (options.every.unit != Length::Unit::steps || double(options.overlap) > options.every.count)
    update.fail("overlap", "an average must arrive before the next one begins",
                "give every in steps, and an overlap of at most as many");
  if (options.weight_by_samples || options.moments != Moments::kept || options.post_local_after.count > 0)
    update.fail("overlap", "with an overlap only weights are averaged, with equal shares",
                "leave out weights, moments and post_local_after");
  return local_sgd(options);
}

}  // namespace

constinit const PolicyKind kLocalSgd = {
    .name = "local-sgd",
    .description = "replicas average their weights every few steps or epochs (Stich, 2019)",
    .read = read_local_sgd,
};

}  // namespace trireme
