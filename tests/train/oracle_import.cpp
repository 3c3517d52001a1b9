// oracle_import FILE SHAPE MODES STEPS BATCH RATE [PLAN...], for oracle_import.py: imports a TorchScript file of
// float64 numbers for samples of SHAPE ("3,64,64") and compares the model with the file run by libtorch: outputs and
// losses, in training also all gradients and the running statistics after the step. MODES: "evaluation", "training" or
// "both". Then trains STEPS steps of BATCH samples with learning rate RATE from the file's weights on one device and
// under every PLAN, and compares losses and weights.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>

#include "../model/import/script_modules.h"
#include "../support/spec_arguments.h"
#include "model/import/describe.h"
#include "plan/named.h"
#include "train/lockstep.h"
#include "train/verify.h"
#include "zoo/imported.h"

namespace trireme::test_support {
namespace {

constexpr int kPlans = 7;  // index of the first plan among the arguments
constexpr int64_t kSamples = 4;
constexpr double kTolerance = 1e-9;        // for one step
constexpr double kWeightTolerance = 1e-8;  // after the first update
constexpr double kCurveTolerance = 1e-7;   // for the losses of all steps: rounding grows
// Relative to the largest gradient: sums that cancel to less (a bias before a batch norm) are only rounding.
constexpr double kSmallestGradient = 1e-2;

Shape with_samples(Shape sample, int64_t samples) {
  sample.insert(sample.begin(), samples);
  return sample;
}

/// A module's logits: its output tensor, or the first of several.
at::Tensor logits_of(const c10::IValue& returned) {
  return returned.isTensor() ? returned.toTensor() : returned.toTupleRef().elements()[0].toTensor();
}

/// The results of one step of a module run by libtorch.
struct Step {
  at::Tensor logits, losses;
  std::map<std::string, at::Tensor> gradients, buffers;

  Step(const torch::jit::Module& original, bool training, const at::Tensor& data, const at::Tensor& target) {
    torch::jit::Module module = copy_to_run(original, training);
    const at::Tensor output = logits_of(module.forward({data}));
    const at::Tensor each = at::cross_entropy_loss(output, target, {}, at::Reduction::None);
    each.mean().backward();
    logits = output.detach();
    losses = each.detach();
    for (const auto& parameter : module.named_parameters())
      if (parameter.value.grad().defined()) gradients[parameter.name] = parameter.value.grad();
    for (const auto& buffer : module.named_buffers()) buffers[buffer.name] = buffer.value.clone();
  }
};

/// The results of a run under a plan.
struct Curve {
  std::vector<double> losses = {};
  Snapshot first;  ///< after the first step
};

/// Settings for training.
struct Training {
  int64_t steps = 1, batch = 1;
  double rate = 0;
};

class Comparison {
 public:
  Comparison(const std::string& file, const Shape& sample, Training training)
      : module_(torch::jit::load(file)),
        sample_(sample),
        training_(training),
        imported_(import_model(file, {.name = file, .sample_shape = sample})),
        model_(imported_.model.with_initial_values({.tensors = imported_.initial_values, .report = {}})) {
    at::manual_seed(11);
    data_ = at::randn(with_samples(sample, kSamples), at::kDouble);
    target_ = at::randint(classes(), {kSamples}, at::TensorOptions().dtype(at::kLong));
  }

  void print_layers() const {
    std::map<std::string, int> kinds;
    int opaque = 0, whole = 0;
    for (const LayerRow& row : describe_layers(imported_.model)) {
      ++kinds[row.kind];
      opaque += row.opaque;
      whole += row.splits.starts_with("replicate");
    }
    for (const std::string& note : imported_.notes) std::cout << "  note: " << note << "\n";
    std::cout << fmt::format("  {} opaque layers, {} that do not split in 2: {}\n", opaque, whole, kinds);
  }

  void step(bool training) {
    largest_ = 0;
    const std::string mode = training ? "training" : "evaluation";
    const Step expected(module_, training, data_, target_);
    std::map<std::string, at::Tensor> state;
    for (const auto& [name, tensor] : imported_.initial_values) state[name] = channels_last(tensor.clone());
    PlainRun run(imported_.model, state);
    const at::Tensor losses = run.forward(data_, target_, training);
    compare(mode + ", output", run.values[size_t(imported_.model.output())], expected.logits);
    compare(mode + ", losses", losses, expected.losses);
    if (training) compare_training(run.backward(), state, expected);
    std::cout << fmt::format("  {}: largest difference {:.1e}\n", mode, largest_);
  }

  void train(const std::string& name) {
    const auto begin = std::chrono::steady_clock::now();
    const Plan plan = plan_of(name);
    const bool by_micro_batch = has_batch_norm(imported_.model) && plan.micro_batches > 1;
    const std::string reference =
        by_micro_batch ? fmt::format("data=1,micro_batches={}", plan.micro_batches) : "single";
    if (!references_.contains(reference)) references_[reference] = run(plan_of(reference));
    const Curve& expected = references_.at(reference);
    const Curve actual = run(plan);
    largest_ = 0;
    for (size_t s = 0; s < expected.losses.size(); ++s)
      compare(fmt::format("{}, loss of step {}", name, s), at::scalar_tensor(actual.losses[s], at::kDouble),
              at::scalar_tensor(expected.losses[s], at::kDouble), kCurveTolerance);
    for (size_t p = 0; p < expected.first.names.size(); ++p)
      compare(fmt::format("{}, {} after a step", name, expected.first.names[p]), actual.first.parameters.at(p),
              expected.first.parameters[p], kWeightTolerance);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    std::cout << fmt::format(
        "  {} ({}): losses {:.4f} ... {:.4f} as those of {}, largest difference {:.1e}, {:.1f} s\n", name,
        plan.in_short(imported_.model), actual.losses.front(), actual.losses.back(), reference, largest_, seconds);
  }

  const std::vector<std::string>& failures() const { return failures_; }

 private:
  int64_t classes() const { return imported_.model.node(imported_.model.output()).sample_shape.back(); }

  void compare(const std::string& what, const at::Tensor& actual, const at::Tensor& expected,
               double tolerance = kTolerance, double smallest_scale = 1e-12) {
    if (actual.numel() != expected.numel()) return failures_.push_back("  " + what + ": another shape");
    const double scale = std::max(expected.abs().max().item<double>(), smallest_scale);
    const double error = (actual.reshape(expected.sizes()) - expected).abs().max().item<double>() / scale;
    if (!(error <= tolerance))
      failures_.push_back(fmt::format("  {}: {:.1e} of {:.1e} off", what, error * scale, scale));
    largest_ = std::max(largest_, error);
  }

  void compare_training(const std::map<std::string, at::Tensor>& gradients,
                        const std::map<std::string, at::Tensor>& state, const Step& expected) {
    if (expected.gradients.size() < imported_.model.parameters().size())
      failures_.emplace_back("  TorchScript gave too few gradients");
    double largest = 0;
    for (const auto& [name, gradient] : expected.gradients)
      largest = std::max(largest, gradient.abs().max().item<double>());
    for (const auto& [name, gradient] : expected.gradients) {
      const auto own = gradients.find(name);
      const bool left_out = !imported_.initial_values.contains(name);  // belongs to an output that is not trained
      if (own == gradients.end() && !left_out) failures_.push_back("  no gradient of " + name);
      if (own != gradients.end())
        compare("gradient of " + name, own->second, gradient, kTolerance, kSmallestGradient * largest);
    }
    for (const Node& node : imported_.model.nodes())
      if (node.layer)
        for (const BufferSpec& spec : node.layer->buffers())
          compare("after the step, " + spec.name, state.at(spec.name), expected.buffers.at(spec.name));
  }

  Plan plan_of(const std::string& name) const {
    const int devices = name == "single" || name.starts_with("data=1") ? 1 : 2;
    return named_plan(name, imported_.model, Cluster::uniform(devices), training_.batch, {});
  }

  Batch batch_of(int64_t step) const {
    at::manual_seed(uint64_t(step) + 100);
    const at::Tensor data =
        at::randn(with_samples(sample_, training_.batch), at::kDouble).contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor target = at::randint(classes(), {training_.batch}, at::TensorOptions().dtype(at::kLong));
    return {training_.batch, [data, target](Range range) {
              return std::vector<at::Tensor>{data.narrow(0, range.begin, range.size()).clone(),
                                             target.narrow(0, range.begin, range.size())};
            }};
  }

  Curve run(const Plan& plan) const {
    LockstepOptions options{.steps = training_.steps,
                            .precision = Precision::fp64,
                            .worker = {.seed = 1, .batch_norm = BatchNormScope::global}};
    options.worker.optimizer.momentum = 0.9;
    std::vector<Batch> batches;
    for (int64_t step = 0; step < training_.steps; ++step) batches.push_back(batch_of(step));
    options.learning_rate = training_.rate;
    options.one_pass = true;  // keeping the gradients of twenty steps of a large model would fill the memory
    const std::vector<Snapshot> snapshots = run_lockstep(
        model_, plan, [&](int64_t step) { return batches[size_t(step)]; }, options);
    Curve curve{.first = snapshots.front()};
    for (const Snapshot& snapshot : snapshots) curve.losses.push_back(snapshot.loss);
    return curve;
  }

  torch::jit::Module module_;
  Shape sample_;
  Training training_;
  ImportedModel imported_;
  Model model_;  ///< begins with the module's values
  at::Tensor data_, target_;
  std::map<std::string, Curve> references_;
  double largest_ = 0;
  std::vector<std::string> failures_;
};

int run(int count, char** args) {
  Comparison comparison(args[1], parse_shape(args[2]), {std::atoll(args[4]), std::atoll(args[5]), std::atof(args[6])});
  const std::string modes = args[3];
  comparison.print_layers();
  for (bool training : {false, true})
    if (modes == "both" || modes == (training ? "training" : "evaluation")) comparison.step(training);
  for (int a = kPlans; a < count; ++a) comparison.train(args[a]);
  for (const std::string& failure : comparison.failures()) std::cout << failure << "\n";
  return comparison.failures().empty() ? 0 : 1;
}

}  // namespace
}  // namespace trireme::test_support

int main(int count, char** args) {
  if (count < trireme::test_support::kPlans) {
    std::cerr << "usage: oracle_import FILE SHAPE MODES STEPS BATCH RATE [PLAN...]\n";
    return 2;
  }
  try {
    return trireme::test_support::run(count, args);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
