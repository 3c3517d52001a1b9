#include "equivalence.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <optional>
#include <sstream>

#include "base/random.h"
#include "zoo/zoo.h"

namespace trireme::test_support {

Model small_model(const std::string& name) {
  if (name == "mlp") return make_model({"mlp", {6}, kClasses, {{"hidden", 8}, {"depth", 2}}});
  if (name == "convnet") return make_model({"mnist-convnet", {1, 16, 16}, kClasses, {}});
  if (name == "resnet") return make_model({"cifar-resnet18", {3, 8, 8}, kClasses, {{"width", 4}, {"batch_norm", 0}}});
  // Larger images than without norms: statistics of the last blocks over only two or three values would enlarge
  // rounding a thousandfold.
  if (name == "resnet-bn") return make_model({"cifar-resnet18", {3, 16, 16}, kClasses, {{"width", 4}}});
  if (name == "inception") return make_model({name, {3, 8, 8}, kClasses, {{"width", 8}, {"batch_norm", 0}}});
  if (name == "lstm-lm") return make_model({name, {3}, kClasses, {{"width", 8}, {"probability", 0.2}}});
  if (name == "transformer-classifier")
    return make_model({name, {3, 8, 8}, kClasses, {{"layers", 2}, {"width", 8}, {"heads", 2}, {"probability", 0.2}}});
  if (name == "dropout-mlp") return make_model({name, {6}, kClasses, {{"hidden", 8}, {"probability", 0.3}}});
  if (name == "transformer-lm")
    return make_model({name, {8}, kClasses, {{"layers", 2}, {"width", 8}, {"heads", 4}, {"probability", 0.2}}});
  return make_model({name, {6}, kClasses, {{"hidden", 8}}});
}

std::function<Batch(int64_t)> random_batches(const Model& model, std::vector<int64_t> sizes, uint64_t seed) {
  const Shape sample = model.node(0).sample_shape, labels_of_one = model.node(1).sample_shape;
  const auto& readers = model.consumers(0);
  // A sequence of targets, or an embedding that reads the data: the model reads tokens.
  const bool tokens = labels_of_one.size() == 1 || std::any_of(readers.begin(), readers.end(), [&](NodeId id) {
                        return model.node(id).layer->kind() == "embedding";
                      });
  return [sizes, seed, sample, labels_of_one, tokens](int64_t step) {
    const int64_t n = sizes.at(size_t(step) % sizes.size());
    auto load = [sample, labels_of_one, tokens, seed, step](Range range) {
      Shape shape = sample, target_shape = labels_of_one;
      shape.insert(shape.begin(), range.size());
      target_shape.insert(target_shape.begin(), range.size());
      at::Tensor data = at::empty(shape, at::kDouble), target = at::empty(target_shape, at::kLong);
      Philox values(random_key(seed, "data")), labels(random_key(seed, "target"));
      const int64_t each = element_count(sample), first = step * 1000 + range.begin;
      for (int64_t i = 0; i < data.numel(); ++i) data.data_ptr<double>()[i] = values.normal(uint64_t(first * each + i));
      const int64_t first_label = first * element_count(labels_of_one);
      for (int64_t i = 0; i < target.numel(); ++i)
        target.data_ptr<int64_t>()[i] = int64_t(labels.uniform(uint64_t(first_label + i)) * kClasses);
      if (tokens) data = data.mul(1000).to(at::kLong).remainder(kClasses);
      if (data.dim() == 4 && data.numel() > 0) data = data.contiguous(at::MemoryFormat::ChannelsLast);
      return std::vector<at::Tensor>{data, target};
    };
    return Batch{n, load};
  };
}

std::vector<Recipe> recipes() {
  OptimizerConfig sgd, momentum, nesterov, adam, adamw;
  momentum.momentum = 0.9;
  nesterov.momentum = 0.8;
  nesterov.nesterov = true;
  nesterov.weight_decay = 0.01;
  adam.kind = &kAdam;
  adam.weight_decay = 0.02;
  adamw.kind = &kAdamW;
  adamw.weight_decay = 0.1;
  // Adam divides by the size of the gradient. With a larger epsilon, rounding of gradients near zero does not become a
  // whole step.
  adam.epsilon = adamw.epsilon = 1e-3;
  return {{"sgd", sgd, 0},
          {"nesterov, weight decay, clipping", nesterov, 0.3},
          {"adam", adam, 0},
          {"momentum", momentum, 0},
          {"adamw, clipping", adamw, 0.3}};
}

namespace {

const auto* const kEnvironment = ::testing::AddGlobalTestEnvironment(new DeviceUnderTest);  // GoogleTest owns it

}  // namespace

std::vector<Snapshot> run_recipe(const Model& model, const Plan& plan, const Recipe& recipe,
                                 const Comparison& comparison, bool one_pass, const std::vector<c10::Device>& places) {
  LockstepOptions options;
  options.steps = int64_t(comparison.batches.size());
  options.precision = comparison.precision;
  options.worker = {.seed = 3, .batch_norm = comparison.batch_norm, .optimizer = recipe.optimizer};
  options.learning_rate = 0.02;
  options.clip_norm = recipe.clip_norm;
  options.one_pass = one_pass;
  options.places = places;
  return run_lockstep(model, plan, random_batches(model, comparison.batches), options);
}

Plan single_plan(const Model& model, int micro_batches) {
  return plan_of("data=1,micro_batches=" + std::to_string(micro_batches), model);
}

namespace {

/// A gradient that is much smaller than the model's others is only rounding, for example before a batch norm of one
/// sample. Its tolerance is relative to this share of the largest (like VerifyRow).
constexpr double kNegligible = 1e-4;

double largest_gradient(const Snapshot& snapshot) {
  double largest = 0;
  for (const at::Tensor& gradient : snapshot.gradients)
    if (gradient.defined()) largest = std::max(largest, gradient.abs().max().item<double>());
  return largest;
}

/// The norm of all gradients together; nullopt if the snapshot lacks one.
std::optional<double> norm_of_gradients(const Snapshot& snapshot) {
  double squares = 0;
  for (const at::Tensor& gradient : snapshot.gradients) {
    if (!gradient.defined()) return std::nullopt;
    squares += gradient.to(at::kDouble).square().sum().item<double>();
  }
  return std::sqrt(squares);
}

}  // namespace

void expect_same(const std::vector<Snapshot>& actual, const std::vector<Snapshot>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t s = 0; s < expected.size(); ++s) {
    SCOPED_TRACE("step " + std::to_string(s));
    ASSERT_TRUE(std::isfinite(expected[s].loss));
    EXPECT_LE(std::abs(actual[s].loss - expected[s].loss), tolerance * std::abs(expected[s].loss))
        << actual[s].loss << " instead of " << expected[s].loss;
    const std::optional<double> norm = norm_of_gradients(expected[s]);
    if (norm && !std::isnan(actual[s].gradient_norm)) {
      EXPECT_NEAR(actual[s].gradient_norm, *norm, tolerance * *norm) << "norm of the gradient";
    }
    ASSERT_EQ(actual[s].names.size(), expected[s].names.size());
    ASSERT_GE(actual[s].averages.size(), actual[s].names.size());
    const double least_gradient = kNegligible * largest_gradient(expected[s]);
    for (size_t e = 0; e < expected[s].names.size(); ++e) {
      const std::string& name = expected[s].names[e];
      const auto a = size_t(std::find(actual[s].names.begin(), actual[s].names.end(), name) - actual[s].names.begin());
      ASSERT_LT(a, actual[s].names.size()) << name;
      EXPECT_LE(relative_difference(actual[s].parameters[a], expected[s].parameters[e]), tolerance) << name;
      ASSERT_EQ(actual[s].averages[a].defined(), expected[s].averages[e].defined()) << name;
      if (expected[s].averages[e].defined()) {
        EXPECT_LE(relative_difference(actual[s].averages[a], expected[s].averages[e]), tolerance)
            << "average of " << name;
      }
      if (!actual[s].gradients[a].defined() || !expected[s].gradients[e].defined()) continue;
      EXPECT_LE(relative_difference(actual[s].gradients[a], expected[s].gradients[e], least_gradient), tolerance)
          << "gradient of " << name;
    }
  }
}

namespace {

bool has_batch_norm(const Model& model) {
  return std::any_of(model.nodes().begin(), model.nodes().end(),
                     [](const Node& node) { return node.layer && node.layer->kind() == "batch_norm"; });
}

/// The reference of a model; computed once for many plans.
const std::vector<Snapshot>& reference(const Model& model, int micro_batches, const Recipe& recipe,
                                       const Comparison& comparison) {
  static std::map<std::string, std::vector<Snapshot>> known;
  std::ostringstream key;
  key << model.fingerprint() << '|' << model.name() << '|' << micro_batches << '|' << recipe.name << '|'
      << int(comparison.precision);
  for (int64_t n : comparison.batches) key << '|' << n;
  auto it = known.find(key.str());
  if (it == known.end())
    it = known
             .emplace(key.str(), run_recipe(model, single_plan(model, micro_batches), recipe, comparison, false,
                                            {c10::DeviceType::CPU}))
             .first;
  return it->second;
}

}  // namespace

void expect_equivalent(const Model& model, const Plan& plan, const Recipe& recipe, const Comparison& comparison) {
  SCOPED_TRACE(model.name() + ", " + plan.name + ", " + recipe.name);
  const auto& expected = reference(model, has_batch_norm(model) ? plan.micro_batches : 1, recipe, comparison);
  auto two_pass = run_recipe(model, plan, recipe, comparison, false);
  for (const Snapshot& snapshot : two_pass) {
    EXPECT_FALSE(std::isnan(snapshot.gradient_norm)) << "a program that keeps gradients measures their norm";
    for (const at::Tensor& gradient : snapshot.gradients) ASSERT_TRUE(gradient.defined());
  }
  expect_same(two_pass, expected, comparison.tolerance);
  expect_same(run_recipe(model, plan, recipe, comparison, true), expected, comparison.tolerance);
}

Plan plan_of(const std::string& degrees, const Model& model) {
  int devices = 1;
  std::istringstream items(degrees);
  for (std::string item; std::getline(items, item, ',');)
    for (const char* axis : {"data=", "tensor=", "pipeline="})
      if (item.starts_with(axis)) devices *= std::stoi(item.substr(item.find('=') + 1));
  return named_plan(degrees, model, Cluster::uniform(devices), kBatch, {});
}

std::vector<std::string> all_degrees() {
  std::vector<std::string> all{
      "data=1",   "data=1,micro_batches=3",  "data=2", "data=3", "data=4", "data=2,micro_batches=2", "tensor=2",
      "tensor=4", "tensor=2,micro_batches=3"};
  for (int m = 1; m <= 8; ++m) all.push_back(fmt::format("pipeline=2,micro_batches={}", m));
  for (int m : {1, 2, 3, 5, 8}) all.push_back(fmt::format("pipeline=3,micro_batches={}", m));
  for (int m : {1, 4, 7}) all.push_back(fmt::format("pipeline=4,micro_batches={}", m));
  for (const char* mixed :
       {"data=2,tensor=2", "data=3,tensor=2", "data=2,pipeline=2,micro_batches=1", "data=2,pipeline=2,micro_batches=3",
        "data=3,pipeline=2,micro_batches=4", "tensor=2,pipeline=2,micro_batches=3",
        "tensor=4,pipeline=2,micro_batches=2", "data=2,tensor=2,pipeline=2,micro_batches=2"})
    all.emplace_back(mixed);
  return all;
}

}  // namespace trireme::test_support
