// Outputs of a trained model: weights are assembled from the workers of any plan and run on one device.
#include "metrics/predictor.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>

#include "../base/expect_error.h"
#include "data/text/parallel_text.h"
#include "experiment/make_plan.h"
#include "memory_data.h"
#include "metrics/bleu.h"
#include "plan/named.h"
#include "program/compile.h"
#include "runtime/worker.h"
#include "runtime/worker_threads.h"
#include "train/final_metrics.h"
#include "train/trained_weights.h"
#include "train/trainer.h"
#include "trireme/layers/embedding.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/slice.h"
#include "trireme/zoo.h"
#include "zoo/zoo.h"

namespace trireme::test_support {
namespace {

constexpr int64_t kBatch = 12, kSteps = 2;

at::Tensor images(int64_t n, uint64_t seed) {
  at::Tensor data = at::empty({n, 3, 8, 8}, at::TensorOptions().memory_format(at::MemoryFormat::ChannelsLast));
  const Philox random(random_key(seed, "images"));
  for (int64_t i = 0; i < data.numel(); ++i) data.data_ptr<float>()[i] = float(random.normal(uint64_t(i)));
  return data;
}

Batch batch_of(const at::Tensor& data) {
  return {data.size(0), [data](Range range) {
            return std::vector<at::Tensor>{data.narrow(0, range.begin, range.size()),
                                           at::arange(range.begin, range.end, at::kLong).remainder(4)};
          }};
}

struct Trained {
  TensorMap weights;
  double loss = 0;  ///< of an evaluation of the first batch
};

Trained train_briefly(const Model& model, const std::string& name, int devices, bool private_replicas) {
  const Plan plan = named_plan(name, model, Cluster::uniform(devices), kBatch, {});
  const CompileOptions options{.batch_norm = BatchNormScope::global, .private_replicas = private_replicas};
  CompileOptions for_evaluation = options;
  for_evaluation.training = false;
  const Program training = compile(model, plan, options), evaluation = compile(model, plan, for_evaluation);
  LocalWorld world(plan.devices);
  ParameterStore store(training, Precision::fp64);
  TrainedWeights weights(training, model);
  std::vector<double> losses(size_t(plan.devices));
  run_worker_threads(world, [&](int rank) {
    Worker worker(rank, model, &training, &evaluation, store, world,
                  {.seed = 3, .batch_norm = BatchNormScope::global, .optimizer = {.momentum = 0.9}});
    for (int64_t step = 0; step < kSteps; ++step)
      worker.train({.step = step, .batch = batch_of(images(kBatch, uint64_t(step))), .learning_rate = 0.05});
    worker.drain();
    losses[size_t(rank)] = worker.evaluate({.batch = batch_of(images(kBatch, 0))}).loss_sum;
    weights.gather(rank, worker, store);
  });
  Trained trained{weights.tensors()};
  for (double loss : losses) trained.loss += loss;
  return trained;
}

/// A model with batch norm, residuals and pooling: it needs running statistics, and its weights are split by dims.
TEST(Predictor, GivesTheWorkersOutputsUnderAnyPlan) {
  const Model model =
      make_model({.name = "cifar-resnet18", .sample_shape = {3, 8, 8}, .classes = 4, .options = {{"width", 4}}});
  const at::Tensor data = images(kBatch, 0), targets = at::arange(kBatch, at::kLong).remainder(4);
  at::Tensor expected;
  for (const auto& [plan, devices, own] :
       std::vector<std::tuple<std::string, int, bool>>{{"single", 1, false},
                                                       {"data", 3, false},
                                                       {"tensor", 2, false},
                                                       {"pipeline=2,micro_batches=1", 2, false},
                                                       {"zero3", 2, true}}) {
    SCOPED_TRACE(plan);
    const Trained trained = train_briefly(model, plan, devices, own);
    Predictor predictor(model, trained.weights, Precision::fp64);
    const at::Tensor logits = predictor.predict(data);
    EXPECT_EQ(logits.sizes(), (at::IntArrayRef{kBatch, 4}));
    const double loss = at::_log_softmax(logits, 1, false).gather(1, targets.unsqueeze(1)).neg().sum().item<double>();
    EXPECT_NEAR(loss, trained.loss, 1e-9 * trained.loss);
    if (!expected.defined()) expected = logits;
    EXPECT_LT((logits - expected).abs().max().item<double>(), 1e-9);
    EXPECT_TRUE(at::equal(predictor.predict(data), logits)) << "again";
    EXPECT_LT((predictor.predict(data.narrow(0, 4, 2)) - logits.narrow(0, 4, 2)).abs().max().item<double>(), 1e-12)
        << "any number of samples";
  }
}

/// A layer that counts its forwards.
class Counted final : public Layer {
 public:
  Counted(std::string name, int* runs) : Layer(std::move(name)), runs_(runs) {}
  std::string_view kind() const override { return "counted"; }
  Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
  std::vector<ShardingOption> sharding_options(std::span<const Shape>, int) const override {
    return {{.name = "replicate"}};
  }
  double forward_flops(std::span<const Shape>) const override { return 0; }
  at::Tensor forward(LayerCall&, std::span<const at::Tensor> inputs) const override {
    ++*runs_;
    return inputs[0].to(at::kDouble);
  }
  std::vector<at::Tensor> backward(LayerCall&, const at::Tensor&) const override { return {}; }

 private:
  int* runs_;
};

class Sum final : public Layer {
 public:
  using Layer::Layer;
  std::string_view kind() const override { return "sum"; }
  Shape output_shape(std::span<const Shape>) const override { return {}; }
  std::vector<ShardingOption> sharding_options(std::span<const Shape>, int) const override {
    return {{.name = "replicate"}};
  }
  double forward_flops(std::span<const Shape>) const override { return 0; }
  at::Tensor forward(LayerCall&, std::span<const at::Tensor> inputs) const override {
    return inputs[0].sum(1) + 100 * inputs[1].sum(1);
  }
  std::vector<at::Tensor> backward(LayerCall&, const at::Tensor&) const override { return {}; }
};

TEST(Predictor, RunsAgainOnlyWhatHasChanged) {
  int source_runs = 0, target_runs = 0;
  ModelBuilder b("two parts");
  const NodeId data = b.input("data", {5}), target = b.input("target", {});
  const NodeId source =
      b.layer<Counted>({b.layer<Slice>({data}, "source", SliceOptions{.begin = 0, .end = 3})}, "encoder", &source_runs);
  const NodeId rest = b.layer<Counted>({b.layer<Slice>({data}, "target part", SliceOptions{.begin = 3, .end = 5})},
                                       "decoder", &target_runs);
  const NodeId output = b.layer<Sum>({source, rest}, "output");
  const Model model = b.finish(output, b.layer<Sum>({source, rest}, "loss"));
  ASSERT_EQ(target, 1);
  Predictor predictor(model, {}, Precision::fp64);
  at::Tensor tokens = at::arange(10, at::kLong).view({2, 5});
  const auto check = [&](int expected_source, int expected_target) {
    const at::Tensor t = tokens.to(at::kDouble);
    EXPECT_TRUE(at::equal(predictor.predict_again(tokens), t.narrow(1, 0, 3).sum(1) + 100 * t.narrow(1, 3, 2).sum(1)));
    EXPECT_EQ(source_runs, expected_source);
    EXPECT_EQ(target_runs, expected_target);
  };
  check(1, 1);
  tokens[1][4] = 77;
  check(1, 2);
  check(1, 2);
  tokens[0][0] = 5;
  check(2, 2);
  tokens = tokens.repeat_interleave(2, 0);
  check(3, 3);
  predictor.predict(tokens);
  EXPECT_EQ(source_runs, 4);
}

TEST(Predictor, NeedsEveryWeight) {
  const Model model = make_model({.name = "mlp", .sample_shape = {4}, .classes = 3, .options = {{"depth", 1}}});
  EXPECT_THROW(Predictor(model, {}, Precision::fp32), std::exception);
}

/// Two classes of the task in memory_data.h.
class TwoClasses final : public Dataset {
 public:
  TwoClasses(int64_t size, uint64_t seed) : all_(size, seed) {}
  int64_t size() const override { return all_.size(); }
  Shape sample_shape() const override { return all_.sample_shape(); }
  int64_t classes() const override { return 2; }
  Samples get(std::span<const int64_t> indices, const Draw& draw) const override {
    Samples samples = all_.get(indices, draw);
    samples.target.remainder_(2);
    return samples;
  }

 private:
  MemoryDataset all_;
};

TEST(FinalMetrics, AucOfTwoClassesAfterTraining) {
  TaskData data;
  data.train = std::make_shared<TwoClasses>(400, 1);
  data.test = std::make_shared<TwoClasses>(150, 2);
  RunSpec experiment;
  experiment.batch = 20;
  experiment.model_name = "mlp";
  experiment.model_options = {{"hidden", 16}};
  experiment.length = {2, Length::Unit::epochs};
  experiment.optimizer = {.learning_rate = 0.1, .momentum = 0.9};
  const Model model = build_model(experiment, data);
  TrainObserver ignored;
  std::vector<double> found;
  for (const auto& [plan, devices] :
       std::vector<std::pair<std::string, int>>{{"single", 1}, {"data", 2}, {"tensor", 2}}) {
    const RunResult r = train(experiment, model, data, make_plan(plan, experiment, model, devices), ignored, {false});
    ASSERT_EQ(r.status, RunStatus::ok) << r.reason;
    EXPECT_TRUE(r.warnings.empty() || r.oversubscribed);
    ASSERT_EQ(r.final_metrics.size(), 1u);
    EXPECT_EQ(r.final_metrics[0].name, "auc");
    found.push_back(r.final_metrics[0].value);
  }
  EXPECT_GT(found[0], 0.95);
  EXPECT_LE(found[0], 1);
  for (double auc : found) EXPECT_NEAR(auc, found[0], 1e-3);
  const TaskData four{
      .train = std::make_shared<MemoryDataset>(10, 1), .test = std::make_shared<MemoryDataset>(10, 1), .source = ""};
  EXPECT_FALSE(has_final_metrics(four));
}

/// Sentences with one fixed order of words, and a model whose weights give the next word.
struct Recited {
  explicit Recited(const std::vector<std::string>& references) {
    const std::vector<std::string> known{"a b c d e x"};
    tokenizer = count_vocabulary(known, {});
    std::vector<std::string> sources;
    for (size_t i = 0; i < references.size(); ++i) sources.emplace_back(i % 2 ? "x a" : "e d c");
    data.train = data.test =
        std::make_shared<TranslationSet>(ParallelText{sources, references}, tokenizer, tokenizer, kLength);
    const int64_t words = tokenizer->size();
    ModelBuilder b("recites");
    const NodeId tokens = b.input("data", {2 * kLength}), target = b.input("target", {kLength});
    NodeId x = b.layer<Slice>({tokens}, "decoder input", SliceOptions{.begin = kLength, .end = 2 * kLength});
    x = b.layer<Embedding>({x}, "words", words, words);
    x = b.layer<Linear>({x}, "next", words, words);
    model.emplace(finish_with_loss(b, x, target,
                                   {.name = "recites",
                                    .sample_shape = {2 * kLength},
                                    .classes = words,
                                    .options = {},
                                    .task = LearningTask::translation}));
    weights["words.weight"] = at::eye(words);
    weights["next.weight"] = at::zeros({words, words});
    weights["next.bias"] = at::zeros({words});
    int64_t last = kBeginToken;
    for (const int32_t token : tokenizer->encode("a b c d e")) {
      weights["next.weight"][token][last] = 20;
      last = token;
    }
    weights["next.weight"][kEndToken][last] = 20;
  }

  static constexpr int64_t kLength = 9;
  std::shared_ptr<const Tokenizer> tokenizer;
  TaskData data;
  std::optional<Model> model;
  TensorMap weights;
};

TEST(FinalMetrics, BleuOfGeneratedSentences) {
  const auto never = [] { return false; };
  const std::vector<std::string> said(300, "a b c d e");  // several batches
  for (int64_t beam : {1, 3}) {
    RunSpec experiment;
    experiment.beam = beam;
    const Recited right(said);
    ASSERT_TRUE(has_final_metrics(right.data));
    const auto metrics = final_metrics(experiment, *right.model, right.data, right.weights, never);
    ASSERT_EQ(metrics.size(), 1u);
    EXPECT_EQ(metrics[0].name, "bleu");
    EXPECT_NEAR(metrics[0].value, 100, 1e-9);
    std::vector<std::string> references = said;
    for (size_t i = 0; i < references.size(); i += 3) references[i] = "a b x d e";
    const Recited wrong(references);
    EXPECT_NEAR(final_metrics(experiment, *wrong.model, wrong.data, wrong.weights, never)[0].value,
                corpus_bleu(said, references).score, 1e-9);
    EXPECT_TRUE(final_metrics(experiment, *right.model, right.data, right.weights, [] { return true; }).empty())
        << "stopped";
  }
}

}  // namespace
}  // namespace trireme::test_support
