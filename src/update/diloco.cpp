#include "update/diloco.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comm/formulas.h"
#include "trireme/error.h"
#include "update/error_feedback.h"
#include "update/registry.h"
#include "update/statistics.h"

namespace trireme {
namespace {

constexpr Codec kFourBits = {.kind = Codec::Kind::e3m0};

/// A range of the weights that is exchanged at once.
struct Fragment {
  int64_t phase = 0;                              ///< due after steps whose number, from 1, is this modulo H
  std::vector<at::Tensor> own;                    ///< the replica's weights: views, by part
  std::vector<Padding> padding;                   ///< by part
  std::vector<at::Tensor> outer, momenta;         ///< theta and the outer optimizer's buffer, equal on all replicas
  std::vector<at::Tensor> errors;                 ///< of the code; empty without compression
  std::vector<std::unique_ptr<Pending>> pending;  ///< by part; empty: none in progress, or it has arrived
  std::vector<at::Tensor> arrived;                ///< by part: mean progress, not yet applied; empty: none
  /// the 0-based step after which to apply it, if there is something to apply
  int64_t apply_after = 0;
  int64_t steps_since = 0;  ///< steps since the last exchange began

  bool is_under_way() const { return !pending.empty() || !arrived.empty(); }
};

class DilocoReplica final : public ReplicaPolicy {
 public:
  DilocoReplica(const DilocoOptions& options, Hub& hub)
      : ReplicaPolicy(hub), options_(options), feedback_(options.compression, "outer gradients") {}

  void begin(ReplicaState& state) override {
    int64_t elements = 0, begin = 0;
    for (const at::Tensor& bucket : state.weights) elements += bucket.numel();
    for (int f = 0; f < options_.fragments; ++f) {
      const int64_t end = begin + chunk_elements(elements, options_.fragments, f);
      Fragment fragment;
      fragment.phase = (f + 1) * options_.every / options_.fragments % options_.every;
      int64_t at = 0;  // offset of the bucket's first element
      for (size_t b = 0; b < state.weights.size(); ++b) {
        const at::Tensor& bucket = state.weights[b];
        const int64_t first = std::max(begin, at), last = std::min(end, at + bucket.numel());
        if (first < last) {
          fragment.own.push_back(bucket.narrow(0, first - at, last - first));
          fragment.padding.push_back(padding_in(state, b, first - at, last - first));
        }
        at += bucket.numel();
      }
      for (const at::Tensor& part : fragment.own) {
        fragment.outer.push_back(part.clone());
        fragment.momenta.push_back(at::zeros_like(part));
        if (feedback_.is_wanted()) fragment.errors.push_back(at::zeros_like(part));
      }
      fragments_.push_back(std::move(fragment));
      begin = end;
    }
  }

  bool after_step(const StepFacts& facts, ReplicaState& state) override {
    bool wrote = false;
    for (Fragment& fragment : fragments_) {
      ++fragment.steps_since;
      if (fragment.is_under_way() && facts.step >= fragment.apply_after) {
        apply(fragment);
        wrote = true;
      }
      if ((facts.step + 1) % options_.every != fragment.phase) continue;
      set_out(fragment, facts.step);
      if (options_.overlap == 0) apply(fragment);
      wrote |= options_.overlap == 0;
      if (&fragment == &fragments_.back()) average_statistics(state.statistics, std::nullopt, {}, hub_);
    }
    return wrote;
  }

  /// Applies exchanges in progress. Later steps form a last, short round.
  void finish(ReplicaState& state) override {
    for (Fragment& fragment : fragments_) {
      if (fragment.is_under_way()) apply(fragment);
      if (fragment.steps_since > 0) {  // equal on all replicas
        set_out(fragment, 0);
        apply(fragment);
      }
      for (size_t p = 0; p < fragment.own.size(); ++p) fragment.own[p].copy_(fragment.outer[p]);
    }
    average_statistics(state.statistics, std::nullopt, {}, hub_);
  }

  /// Returns theta, which is equal on all replicas.
  ModelValues values_for_evaluation(ReplicaState& state) override {
    Hub::Unmetered evaluation(hub_);
    ModelValues values;
    ReplicaState outer{.weights = {}, .moments = {}, .statistics = copies_of(state.statistics)};
    for (const at::Tensor& bucket : state.weights) outer.weights.push_back(at::empty_like(bucket));
    std::vector<at::Tensor> stretches;
    for (const Fragment& fragment : fragments_)
      stretches.insert(stretches.end(), fragment.outer.begin(), fragment.outer.end());
    int64_t taken = 0;
    const at::Tensor all = stretches.empty() ? at::Tensor() : at::cat(stretches);
    for (at::Tensor& bucket : outer.weights) {
      if (bucket.numel() > 0) bucket.copy_(all.narrow(0, taken, bucket.numel()));
      taken += bucket.numel();
    }
    average_statistics(outer.statistics, std::nullopt, {}, hub_);
    values.weights = std::move(outer.weights);
    values.statistics = std::move(outer.statistics);
    return values;
  }

 protected:
  void fields(StateFields& fields, const ReplicaState&) override {
    std::vector<int64_t> under_way, apply_after, steps_since;
    for (Fragment& fragment : fragments_) {
      if (!fragment.pending.empty()) arrive(fragment);
      under_way.push_back(fragment.is_under_way() ? 1 : 0);
      apply_after.push_back(fragment.apply_after);
      steps_since.push_back(fragment.steps_since);
    }
    fields.value("fragments under way", under_way);
    fields.value("fragments are applied after step", apply_after);
    fields.value("steps since fragments set out", steps_since);
    for (size_t f = 0; f < fragments_.size(); ++f) {
      Fragment& fragment = fragments_[f];
      fragment.apply_after = apply_after[f];
      fragment.steps_since = steps_since[f];
      fields.weights("outer weights", fragment.outer);
      fields.weights("outer momentum", fragment.momenta);
      if (feedback_.is_wanted()) fields.weights("error of outer gradients", fragment.errors);
      // zeros if there is none, because the state has a value for every element
      std::vector<at::Tensor> progress = fragment.arrived;
      if (progress.empty())
        for (const at::Tensor& part : fragment.own) progress.push_back(at::zeros_like(part));
      fields.weights("progress under way", progress);
      if (under_way[f] == 1) fragment.arrived = std::move(progress);
    }
  }

 private:
  void set_out(Fragment& fragment, int64_t step) {
    std::vector<at::Tensor> progress;
    for (size_t p = 0; p < fragment.own.size(); ++p) progress.push_back(fragment.outer[p] - fragment.own[p]);
    if (options_.four_bits) {
      for (size_t p = 0; p < progress.size(); ++p)
        fragment.pending.push_back(hub_.begin_gather(encode(kFourBits, progress[p], fragment.padding[p])));
    } else if (feedback_.is_wanted()) {
      for (size_t p = 0; p < progress.size(); ++p)
        fragment.pending.push_back(
            hub_.begin_gather(feedback_.encode(progress[p], fragment.errors[p], fragment.padding[p])));
    } else {
      fragment.pending.push_back(hub_.begin_average(std::move(progress)));
    }
    fragment.apply_after = step + options_.overlap;
    fragment.steps_since = 0;
  }

  /// Waits for the mean progress of all replicas.
  void arrive(Fragment& fragment) {
    std::vector<at::Tensor>& means = fragment.arrived;
    if (options_.four_bits || feedback_.is_wanted()) {
      const Codec& codec = options_.four_bits ? kFourBits : feedback_.codec();
      for (size_t p = 0; p < fragment.own.size(); ++p) {
        means.push_back(at::zeros_like(fragment.own[p]));
        for (const at::Tensor& encoded : fragment.pending[p]->wait())
          check_internal(add_decoded(codec, encoded, means[p], 1.0 / hub_.replicas(), fragment.padding[p]),
                         "replicas encode fragments of one size");
      }
    } else {
      means = fragment.pending.front()->wait();
    }
    fragment.pending.clear();
  }

  void apply(Fragment& fragment) {
    if (!fragment.pending.empty()) arrive(fragment);
    std::vector<at::Tensor> progress = std::exchange(fragment.arrived, {});
    for (size_t p = 0; p < fragment.own.size(); ++p) {
      at::Tensor& momentum = fragment.momenta[p];
      momentum.mul_(options_.outer_momentum).add_(progress[p]);
      progress[p].add_(momentum, options_.outer_momentum);  // Nesterov's step
      fragment.outer[p].sub_(progress[p], options_.outer_learning_rate);
      if (options_.mix == 0) fragment.own[p].copy_(fragment.outer[p]);
      else fragment.own[p].mul_(options_.mix).add_(fragment.outer[p], 1 - options_.mix);
    }
  }

  const DilocoOptions options_;
  ErrorFeedback feedback_;  ///< its errors are the fragments'
  std::vector<Fragment> fragments_;
};

class Diloco final : public UpdatePolicy {
 public:
  explicit Diloco(const DilocoOptions& options) : options_(options) {}
  std::string description() const override {
    return fmt::format(
        "diloco,every_steps={},outer_learning_rate={},outer_momentum={},fragments={},overlap={},mix={},outer_gradients="
        "{}{}",
        options_.every, options_.outer_learning_rate, options_.outer_momentum, options_.fragments, options_.overlap,
        options_.mix, options_.four_bits ? "4 bits" : "full", text_of(options_.compression));
  }
  bool evaluates_together() const override { return true; }
  std::unique_ptr<ReplicaPolicy> for_replica(Hub& hub) override {
    return std::make_unique<DilocoReplica>(options_, hub);
  }

 private:
  const DilocoOptions options_;
};

DilocoOptions read_options(const ConfigTable& update, int64_t every) {
  DilocoOptions options;
  options.every = update.get_int("every_steps", every, 1);
  options.outer_learning_rate = update.get_double("outer_learning_rate", options.outer_learning_rate, 0);
  options.outer_momentum = update.get_double("outer_momentum", options.outer_momentum, 0);
  if (!(options.outer_momentum < 1))
    update.fail("outer_momentum", "it must be below 1, or the velocity grows without bound", "the paper's is 0.9");
  return options;
}

constexpr int64_t kPaperSteps = 500;           // H of DiLoCo
constexpr int64_t kPaperStreamingSteps = 100;  // H of Streaming DiLoCo
constexpr double kPaperMix = 0.5;

}  // namespace

std::unique_ptr<UpdatePolicy> diloco(const DilocoOptions& options) { return std::make_unique<Diloco>(options); }

namespace {

std::unique_ptr<UpdatePolicy> read_diloco(const ConfigTable& update, const RunFacts&) {
  DilocoOptions options = read_options(update, kPaperSteps);
  options.compression = read_compression(update);
  return diloco(options);
}

std::unique_ptr<UpdatePolicy> read_streaming_diloco(const ConfigTable& update, const RunFacts&) {
  DilocoOptions options = read_options(update, kPaperStreamingSteps);
  const int64_t fragments = update.get_int("fragments", 4, 1);
  if (fragments > options.every)
    update.fail("fragments", fmt::format("each needs a step of its own among every_steps = {}", options.every),
                "choose fewer");
  options.fragments = int(fragments);
  options.overlap = update.get_int("overlap", 1, 0);
  if (options.overlap >= options.every)
    update.fail(
        "overlap",
        fmt::format("an exchange must finish before the fragment's next one, every_steps = {} later", options.every),
        "choose less");
  options.mix = update.get_double("mix", kPaperMix, 0);
  if (options.mix > 1) update.fail("mix", "it is a share", "choose 0 to 1; the paper's is 0.5");
  options.four_bits = update.get_choice("outer_gradients", "4 bits", {"4 bits", "full"}) == "4 bits";
  options.compression = read_compression(update);
  if (options.compression && options.four_bits)
    update.fail("compression", "outer gradients have a code already, 4 bits without error feedback",
                "add outer_gradients = \"full\", or leave it out");
  return diloco(options);
}

}  // namespace

constinit const PolicyKind kDiloco = {
    .name = "diloco",
    .description = "local-sgd with an outer optimizer (Douillard et al., 2023)",
    .read = read_diloco,
};

constinit const PolicyKind kStreamingDiloco = {
    .name = "streaming-diloco",
    .description = "diloco in fragments of the weights, one after another (Douillard et al., 2025)",
    .read = read_streaming_diloco,
};

}  // namespace trireme
