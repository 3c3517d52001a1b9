// Training begins with the weights of a file, under every kind of plan.
#include "experiment/initial_weights.h"

#include <cmath>
#include <filesystem>

#include "../base/expect_error.h"
#include "equivalence.h"
#include "metrics/predictor.h"
#include "model/weights/file_shapes.h"
#include "model/weights/match.h"
#include "model/weights/read_weights.h"
#include "model/weights/safetensors.h"
#include "program/compile.h"
#include "runtime/worker.h"
#include "runtime/worker_threads.h"
#include "train/trained_weights.h"
#include "zoo/zoo.h"

namespace trireme::test_support {
namespace {

namespace fs = std::filesystem;

constexpr double kSize = 2;  // size of weights times the root of their fan in

/// Models with running statistics; LSTMs, which have a dim for gates; fused projections, transposed; a tied weight.
std::vector<ModelSpec> specs() {
  using enum LearningTask;
  return {{.name = "cifar-resnet18", .sample_shape = {3, 16, 16}, .classes = kClasses, .options = {{"width", 4}}},
          {.name = "lstm-lm",
           .sample_shape = {5},
           .classes = kClasses,
           .options = {{"width", 8}, {"stateful", 0}},
           .task = language,
           .target_shape = {5}},
          {.name = "llama",
           .sample_shape = {6},
           .classes = kClasses,
           .options = {{"layers", 2}, {"width", 8}, {"heads", 4}, {"key_heads", 2}, {"hidden", 12}},
           .task = language,
           .target_shape = {6},
           .vocabulary = kClasses},
          {.name = "gpt2",
           .sample_shape = {6},
           .classes = kClasses,
           .options = {{"layers", 2}, {"width", 8}, {"heads", 4}, {"positions", 8}, {"probability", 0}},
           .task = language,
           .target_shape = {6},
           .vocabulary = kClasses}};
}

/// Values for a file, which no seed draws: matrices of about the size of drawn ones; norms and statistics above zero.
TensorMap file_of(const Model& model) {
  TensorMap weights;
  const auto values = [](const std::string& name, const Shape& shape, double low, double high) {
    at::Tensor tensor = at::empty(shape);
    const Philox random(random_key(7, name));
    for (int64_t i = 0; i < tensor.numel(); ++i)
      tensor.data_ptr<float>()[i] = float(low + (high - low) * random.uniform(uint64_t(i)));
    return tensor;
  };
  for (const ParameterSpec& spec : model.parameters()) {
    const double fan_in = double(element_count(spec.shape)) / double(spec.shape[0]), size = kSize / std::sqrt(fan_in);
    weights[spec.name] =
        spec.full_precision ? values(spec.name, spec.shape, 0.5, 1) : values(spec.name, spec.shape, -size, size);
  }
  for (const BufferSpec& spec : model.buffers()) weights[spec.name] = values(spec.name, spec.shape, 0.5, 1);
  return in_file_shapes(model, weights);
}

class InitialValues : public ::testing::Test {
 protected:
  InitialValues() { fs::create_directory(folder_); }
  ~InitialValues() override { fs::remove_all(folder_); }

  /// Writes the values to a file and returns the model with initial values read from it.
  Model from_file(const Model& model, const TensorMap& file) {
    write_safetensors(folder_ / kWeightsFile, file);
    Experiment experiment;
    experiment.initial_weights = ::trireme::InitialWeights{.path = folder_, .where = "", .match = {}};
    return with_initial_weights(experiment, model);
  }

  const fs::path folder_ = fs::temp_directory_path() / "trireme_initial_values_test";
};

struct Case {
  const char* plan;
  int devices = 1;
  bool own_replicas = false;
};
const std::vector<Case> kCases{
    {"single"},         {"data", 3},        {"tensor", 2},      {"pipeline=2,micro_batches=2", 2},   {"data", 2, true},
    {"zero1", 2, true}, {"zero2", 3, true}, {"zero3", 2, true}, {"pipeline=2,schedule=pipedream", 2}};

/// The workers' weights before any step, and the loss of an evaluation.
struct Beginning {
  TensorMap weights;
  double loss = 0;
};

Beginning beginning(const Model& model, const Case& c, Precision precision, const CompileOptions& wanted = {},
                    double ema = 0) {
  const Plan plan = named_plan(c.plan, model, Cluster::uniform(c.devices), kBatch, {});
  CompileOptions options = wanted;
  options.mixed_precision = precision == Precision::bf16;
  options.batch_norm = BatchNormScope::global;
  options.private_replicas = c.own_replicas;
  const Program training = compile(model, plan, options);
  options.training = false;
  const Program evaluation = compile(model, plan, options);
  LocalWorld world(plan.devices);
  ParameterStore store(training, precision);
  TrainedWeights weights(training, model);
  std::vector<double> losses(size_t(plan.devices));
  const auto batch = random_batches(model, {7})(0);
  run_worker_threads(world, [&](int rank) {
    Worker worker(rank, model, &training, &evaluation, store, world,
                  {.seed = 3, .batch_norm = BatchNormScope::global, .optimizer = {.momentum = 0.9, .ema = ema}});
    losses[size_t(rank)] = worker.evaluate({.batch = batch, .starts_stream = true}).loss_sum;
    weights.gather(rank, worker, store);
  });
  Beginning result{weights.tensors()};
  for (double loss : losses) result.loss += loss;
  return result;
}

void expect_equal(const TensorMap& actual, const TensorMap& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, tensor] : expected)
    EXPECT_TRUE(at::equal(actual.at(name).to(tensor.scalar_type()), tensor)) << name;
}

TEST_F(InitialValues, WorkersBeginWithTheFileUnderEveryPlan) {
  for (const ModelSpec& spec : specs()) {
    const Model plain = make_model(spec);
    const TensorMap file = file_of(plain);
    const Model model = from_file(plain, file);
    for (const Case& c : kCases)
      for (Precision precision : {Precision::fp64, Precision::fp32, Precision::bf16}) {
        SCOPED_TRACE(spec.name + " " + c.plan + " " + name_of(precision) + (c.own_replicas ? " private" : ""));
        expect_equal(in_file_shapes(model, beginning(model, c, precision).weights), file);
      }
  }
}

TEST_F(InitialValues, FrozenAndAveragedWeightsToo) {
  const ModelSpec spec = specs()[0];
  const Model plain = make_model(spec);
  const TensorMap file = file_of(plain);
  const Model model = from_file(plain, file);
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.plan);
    expect_equal(
        in_file_shapes(model,
                       beginning(model, c, Precision::fp32, {.frozen = {"conv1.weight", "layer1.*"}}, 0.9).weights),
        file);
  }
}

/// bf16 computes with its own copy of the weights, which must be the file's too; so must running statistics.
TEST_F(InitialValues, EvaluationsComputeWithTheFile) {
  for (const ModelSpec& spec : specs()) {
    const Model plain = make_model(spec);
    const Model model = from_file(plain, file_of(plain));
    const double expected = beginning(model, kCases[0], Precision::fp64).loss,
                 drawn = beginning(plain, kCases[0], Precision::fp64).loss;
    ASSERT_GT(std::abs(drawn - expected), 0.02 * expected) << "the test sees a difference";
    for (const Case& c : kCases)
      for (const auto& [precision, tolerance] : {std::pair{Precision::fp64, 1e-10}, std::pair{Precision::bf16, 0.01}}) {
        SCOPED_TRACE(spec.name + " " + c.plan + " " + name_of(precision));
        EXPECT_NEAR(beginning(model, c, precision).loss, expected, tolerance * expected);
      }
  }
}

TEST_F(InitialValues, FineTuningIsTheSameUnderEveryPlan) {
  for (const ModelSpec& spec : specs()) {
    const Model plain = make_model(spec);
    TensorMap file = file_of(plain);
    const Model model = from_file(plain, file);
    // Batch norm over few values enlarges rounding.
    const Comparison comparison{.tolerance = 1e-9, .batches = {12, 9, 8}};
    const Recipe recipe{"adam, ema", {.kind = &kAdam, .epsilon = 1e-3, .ema = 0.8}};
    for (const char* degrees :
         {"data=3", "tensor=2", "data=2,tensor=2", "data=2,sharding=zero1", "data=2,sharding=zero3"}) {
      SCOPED_TRACE(spec.name + " " + degrees);
      expect_equivalent(model, plan_of(degrees, model), recipe, comparison);
    }
    if (spec.name != "cifar-resnet18")  // micro-batches change batch norm
      expect_equivalent(model, plan_of("pipeline=2,micro_batches=3", model), recipe, comparison);
  }
}

/// A model with other classes: its classifier is drawn, the rest comes from the file.
TEST_F(InitialValues, PartOfAFile) {
  ModelSpec spec = specs()[0];
  const TensorMap file = file_of(make_model(spec));
  spec.classes = kClasses + 3;
  const Model plain = make_model(spec);
  write_safetensors(folder_ / kWeightsFile, file);
  Experiment experiment;
  experiment.initial_weights = ::trireme::InitialWeights{.path = folder_, .where = "", .match = {}};
  expect_error(Blame::user, {"weights.safetensors", "fc.weight is [4, 32], not [7, 32]", "weights_match = \"partial\""},
               [&] { with_initial_weights(experiment, plain); });
  experiment.initial_weights->match.rule = MatchOptions::Rule::partial;
  const Model model = with_initial_weights(experiment, plain);
  EXPECT_THAT(model.initial_values()->report,
              ::testing::HasSubstr("left at their initial values, of another shape in the file"));
  EXPECT_FALSE(model.initial_values()->tensors.contains("fc.weight"));
  const TensorMap held = beginning(model, {"data", 2}, Precision::fp32).weights,
                  drawn = beginning(plain, {"data", 2}, Precision::fp32).weights;
  EXPECT_TRUE(at::equal(held.at("fc.weight"), drawn.at("fc.weight")));
  EXPECT_TRUE(at::equal(held.at("conv1.weight"), file.at("conv1.weight")));
}

TEST_F(InitialValues, FoldersWithoutWeights) {
  expect_error(Blame::user, {folder_.string(), "no weights.safetensors", "not a run's"},
               [&] { weights_file(folder_); });
  fs::create_directory(folder_ / "data-x2");
  write_safetensors(folder_ / "data-x2" / kWeightsFile, {{"w", at::ones({1})}});
  expect_error(Blame::user, {"folders of several runs", "name one of these folders: \"data-x2\""},
               [&] { weights_file(folder_); });
  EXPECT_EQ(weights_file(folder_ / "data-x2"), folder_ / "data-x2" / kWeightsFile);
  EXPECT_EQ(weights_file("some.pt"), "some.pt");
}

}  // namespace
}  // namespace trireme::test_support
