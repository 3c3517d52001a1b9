// "Same seed, any plan, same curve" for optimizers that need norms of parameters spread over workers (LARS, LAMB), for
// optimizers with other state, and for averaged weights, in training and in evaluation.
#include <fmt/format.h>

#include <cmath>
#include <mutex>

#include "../support/set_parameter.h"
#include "base/memory.h"
#include "equivalence.h"
#include "program/compile.h"
#include "runtime/worker.h"
#include "runtime/worker_threads.h"

namespace trireme::test_support {
namespace {

/// Epsilons and accumulators are large for the reason given in recipes().
std::vector<Recipe> new_recipes() {
  return {{"adagrad",
           {.kind = &kAdagrad, .weight_decay = 0.02, .epsilon = 1e-3, .rate_decay = 0.1, .initial_accumulator = 0.1},
           0},
          {"rmsprop, centered, ema",
           {.kind = &kRmsprop, .momentum = 0.8, .epsilon = 1e-2, .alpha = 0.9, .centered = true, .ema = 0.8},
           0},
          {"lars", {.kind = &kLars, .momentum = 0.9, .weight_decay = 0.05, .trust = 0.5}, 0},
          {"lars, clipping, ema", {.kind = &kLars, .weight_decay = 0.05, .trust = 0.5, .ema = 0.6}, 0.3},
          {"lamb, ema", {.kind = &kLamb, .weight_decay = 0.05, .epsilon = 1e-3, .ema = 0.9}, 0},
          {"lamb, clipping", {.kind = &kLamb, .weight_decay = 0.05, .epsilon = 1e-3}, 0.3},
          {"nesterov, ema", {.momentum = 0.8, .nesterov = true, .weight_decay = 0.01, .ema = 0.9}, 0}};
}

/// One plan for each way to hold parameters: slices of shared buckets, shards, stages, private copies, divided copies.
std::vector<std::string> ways() {
  return {"data=1,micro_batches=3",
          "data=3",
          "tensor=2",
          "tensor=4",
          "pipeline=3,micro_batches=3",
          "data=2,tensor=2",
          "data=2,tensor=2,pipeline=2,micro_batches=2",
          "data=3,sharding=zero1",
          "data=3,sharding=zero2",
          "data=3,sharding=zero3",
          "data=2,tensor=2,sharding=zero1",
          "data=4,sharding=zero1,sharding_group=2",
          "data=4,micro_batches=2,sharding=zero3,sharding_group=2",
          "data=2,pipeline=2,micro_batches=2,sharding=zero3",
          "data=2,pipeline=2,micro_batches=3,schedule=1f1b"};
}

TEST(NewOptimizers, OfAnMlp) {
  const Model model = small_model("mlp");
  for (const Recipe& recipe : new_recipes())
    for (const std::string& way : ways()) expect_equivalent(model, plan_of(way, model), recipe, {});
}

/// A parameter on several stages counts once in its norm.
TEST(NewOptimizers, OfTiedParameters) {
  const Model model = small_model("tied-mlp");
  for (const Recipe& recipe : new_recipes())
    for (const char* way :
         {"pipeline=2,micro_batches=2", "pipeline=3,micro_batches=3", "data=2,pipeline=2,micro_batches=2", "tensor=2",
          "data=2,pipeline=2,micro_batches=2,sharding=zero1", "data=2,pipeline=2,micro_batches=2,sharding=zero3"})
      expect_equivalent(model, plan_of(way, model), recipe, {});
}

TEST(NewOptimizers, OfOtherModels) {
  for (const auto& [name, ways] : std::vector<std::pair<std::string, std::vector<const char*>>>{
           {"transformer-lm", {"data=2,tensor=2", "pipeline=2,micro_batches=3", "data=3,sharding=zero3"}},
           {"resnet", {"tensor=2", "data=2,sharding=zero2"}}}) {
    const Model model = small_model(name);
    for (const Recipe& recipe : new_recipes()) {
      if (recipe.optimizer.ema == 0 && recipe.clip_norm == 0) continue;
      for (const char* way : ways) expect_equivalent(model, plan_of(way, model), recipe, {});
    }
  }
}

TEST(NewOptimizers, OfPrivateCopies) {
  const Model model = small_model("tied-mlp");
  for (const Recipe& recipe : new_recipes()) {
    LockstepOptions options{.steps = 3,
                            .precision = Precision::fp64,
                            .worker = {.seed = 3, .optimizer = recipe.optimizer},
                            .learning_rate = 0.02,
                            .clip_norm = recipe.clip_norm};
    const auto expected = run_lockstep(model, single_plan(model), random_batches(model, ragged_batches()), options);
    options.private_replicas = true;
    for (const char* way : {"data=1", "data=3", "data=2,tensor=2", "data=2,pipeline=2,micro_batches=2"}) {
      SCOPED_TRACE(fmt::format("{}, {}", recipe.name, way));
      expect_same(run_lockstep(model, plan_of(way, model), random_batches(model, ragged_batches()), options), expected,
                  1e-10);
    }
  }
}

/// Parameters of norms and biases take the plain step: another trust changes matrices only.
TEST(LayerWise, VectorsAreNotAdapted) {
  const Model model = small_model("mlp");
  Recipe recipe{"lars", {.kind = &kLars, .weight_decay = 0.05, .trust = 0.5}, 0};
  Comparison comparison;
  comparison.batches = {13};
  const auto some = run_recipe(model, single_plan(model), recipe, comparison, true);
  recipe.optimizer.trust = 0.25;
  const auto less = run_recipe(model, single_plan(model), recipe, comparison, true);
  recipe.optimizer = {};
  const auto sgd = run_recipe(model, single_plan(model), recipe, comparison, true);
  for (size_t p = 0; p < some[0].names.size(); ++p) {
    const bool vector = some[0].parameters[p].dim() < 2;
    EXPECT_EQ(at::equal(some[0].parameters[p], less[0].parameters[p]), vector) << some[0].names[p];
    EXPECT_EQ(relative_difference(some[0].parameters[p], sgd[0].parameters[p]) < 1e-14, vector) << some[0].names[p];
  }
}

TEST(LayerWise, InSinglePrecision) {
  const Model model = small_model("mlp");
  for (const Recipe& recipe : {new_recipes()[2], new_recipes()[4]})
    for (const char* way : {"data=3", "data=2,tensor=2", "data=3,sharding=zero3"}) {
      expect_equivalent(model, plan_of(way, model), recipe, {.precision = Precision::fp32, .tolerance = 2e-4});
      expect_equivalent(model, plan_of(way, model), recipe, {.precision = Precision::bf16, .tolerance = 0.1});
    }
}

/// Without flush, gradients are older than the weights whose norms are used. One and two workers per stage must give
/// the same.
TEST(LayerWise, WithoutFlush) {
  const Model model = small_model("mlp");
  for (const Recipe& recipe : {new_recipes()[2], new_recipes()[4]}) {
    LockstepOptions options{.steps = 5,
                            .precision = Precision::fp64,
                            .worker = {.seed = 3, .optimizer = recipe.optimizer},
                            .learning_rate = 0.02,
                            .one_pass = true};
    const auto batches = random_batches(model, {16});
    const auto one =
        run_lockstep(model, plan_of("pipeline=2,schedule=pipedream,micro_batches=1", model), batches, options).back();
    const auto two =
        run_lockstep(model, plan_of("data=2,pipeline=2,schedule=pipedream,micro_batches=1", model), batches, options)
            .back();
    ASSERT_EQ(one.names, two.names);
    for (size_t p = 0; p < one.names.size(); ++p) {
      EXPECT_LE(relative_difference(two.parameters[p], one.parameters[p]), 1e-10) << one.names[p];
      if (recipe.optimizer.ema == 0) continue;
      EXPECT_LE(relative_difference(two.averages[p], one.averages[p]), 1e-10) << one.names[p];
    }
  }
}

// -- evaluation with averaged weights

struct Evaluated {
  std::vector<double> losses;
  std::vector<at::Tensor> parameters, averages;  ///< at the end
};

constexpr int64_t kTestBatch = 5;

/// Trains on `batches` and evaluates after each step if asked.
Evaluated train_and_evaluate(const Model& model, const Plan& plan, Precision precision,
                             const OptimizerConfig& optimizer, bool evaluates, bool private_replicas = false) {
  CompileOptions options{.layer_norms = optimizer.is_layerwise(),
                         .mixed_precision = precision == Precision::bf16,
                         .batch_norm = BatchNormScope::global,
                         .private_replicas = private_replicas};
  const Program training = compile(model, plan, options);
  options.training = false;
  const Program evaluation = compile(model, plan, options);
  const auto batch_of = random_batches(model, {13, 7, 16});
  Evaluated result{std::vector<double>(3), {}, {}};
  std::mutex mutex;
  LocalWorld world(plan.devices);
  ParameterStore store(training, precision);
  run_worker_threads(world, [&](int rank) {
    Worker worker(rank, model, &training, &evaluation, store, world,
                  {.seed = 3, .batch_norm = BatchNormScope::global, .optimizer = optimizer});
    for (int64_t step = 0; step < 3; ++step) {
      worker.train({.step = step, .batch = batch_of(step), .learning_rate = 0.05, .starts_stream = step == 0});
      if (!evaluates) continue;
      for (int repeat = 0; repeat < 2; ++repeat) {
        const double loss = worker.evaluate({.batch = batch_of(kTestBatch), .starts_stream = true}).loss_sum;
        std::lock_guard lock(mutex);
        result.losses[size_t(step)] += loss / 2;
      }
    }
    worker.settle();
    worker.barrier();
    for (int p = 0; rank == 0 && p < int(training.parameters.size()); ++p) {
      result.parameters.push_back(store.full_parameter(p).clone());
      result.averages.push_back(store.full_average(p));
    }
    worker.barrier();
  });
  return result;
}

TEST(AveragedWeights, AreEvaluatedUnderEveryPlan) {
  const OptimizerConfig optimizer{.kind = &kAdam, .epsilon = 1e-3, .ema = 0.7};
  for (const auto& [name, more] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"mlp", ways()},
           {"resnet-bn", {"data=2", "tensor=2", "pipeline=2,micro_batches=1", "data=3,sharding=zero3"}}}) {
    const Model model = small_model(name);
    const auto expected = train_and_evaluate(model, single_plan(model), Precision::fp64, optimizer, true);
    for (const std::string& way : more) {
      for (bool private_replicas : {false, true}) {
        SCOPED_TRACE(fmt::format("{}, {}, {}", name, way, private_replicas ? "private" : "shared"));
        const Plan plan = plan_of(way, model);
        const auto with = train_and_evaluate(model, plan, Precision::fp64, optimizer, true, private_replicas);
        const auto without = train_and_evaluate(model, plan, Precision::fp64, optimizer, false, private_replicas);
        for (size_t s = 0; s < 3; ++s) EXPECT_NEAR(with.losses[s], expected.losses[s], 1e-10 * expected.losses[s]) << s;
        for (size_t p = 0; p < with.parameters.size(); ++p)
          EXPECT_TRUE(at::equal(with.parameters[p], without.parameters[p])) << "training goes on with the raw weights";
      }
    }
  }
}

TEST(AveragedWeights, LeaveTrainingAloneInEveryPrecision) {
  const OptimizerConfig averaged{.momentum = 0.9, .ema = 0.7}, plain{.momentum = 0.9};
  const Model model = small_model("mlp");
  for (Precision precision : {Precision::fp32, Precision::bf16})
    for (const char* way : {"data=1", "data=2", "data=2,sharding=zero1", "data=2,sharding=zero3"}) {
      SCOPED_TRACE(fmt::format("{}, {}", name_of(precision), way));
      const Plan plan = plan_of(way, model);
      const auto with = train_and_evaluate(model, plan, precision, averaged, true);
      const auto without = train_and_evaluate(model, plan, precision, plain, true);
      for (size_t p = 0; p < with.parameters.size(); ++p) {
        EXPECT_TRUE(at::equal(with.parameters[p], without.parameters[p]));
        EXPECT_TRUE(with.averages[p].defined());
        EXPECT_FALSE(without.averages[p].defined());
      }
      EXPECT_NE(with.losses[2], without.losses[2]);
    }
}

/// An evaluation with averages gives the same as an evaluation of a model whose weights are the averages.
TEST(AveragedWeights, AsWeightsOfTheirOwn) {
  const Model model = small_model("mlp");
  const Plan plan = plan_of("data=2", model);
  const auto trained = train_and_evaluate(model, plan, Precision::fp64, {.ema = 0.7}, true);
  const Program program = compile(model, plan, {.training = false});
  const Batch batch = random_batches(model, {13, 7, 16})(kTestBatch);
  LocalWorld world(plan.devices);
  ParameterStore store(program, Precision::fp64);
  std::mutex mutex;
  double loss = 0;
  run_worker_threads(world, [&](int rank) {
    Worker worker(rank, model, nullptr, &program, store, world, {});
    for (int p = 0; rank == 0 && p < int(program.parameters.size()); ++p)
      set_parameter(store, program, p, trained.averages[size_t(p)]);
    worker.barrier();
    const double part = worker.evaluate({.batch = batch, .starts_stream = true}).loss_sum;
    std::lock_guard lock(mutex);
    loss += part;
  });
  EXPECT_NEAR(loss, trained.losses[2], 1e-12 * loss);
}

/// Running statistics belong to the weights, so they are averaged with the same shares.
TEST(AveragedWeights, WithAveragedStatistics) {
  constexpr double kEma = 0.7;
  constexpr int64_t kSteps = 4;
  const Model model = small_model("resnet-bn");
  const Plan plan = single_plan(model);
  const auto batch_of = random_batches(model, {8});
  const Program training = compile(model, plan, {}), evaluation = compile(model, plan, {.training = false});
  // Running means and variances after each step, then those of the last evaluation.
  auto statistics = [&](double ema) {
    std::vector<std::vector<at::Tensor>> seen(kSteps + 1);
    LocalWorld world(1);
    ParameterStore store(training, Precision::fp64);
    run_worker_threads(world, [&](int rank) {
      Worker worker(rank, model, &training, &evaluation, store, world, {.seed = 3, .optimizer = {.ema = ema}});
      auto note = [&](std::vector<at::Tensor>& list) {
        for (OpId id = 0; id < OpId(training.ops.size()); ++id)
          if (const auto* buffers = worker.buffers(id))
            for (const at::Tensor& buffer : *buffers) list.push_back(buffer.clone());
      };
      for (int64_t step = 0; step < kSteps; ++step) {
        worker.train({.step = step, .batch = batch_of(step), .learning_rate = 0.05});
        note(seen[size_t(step)]);
      }
      worker.evaluate({.batch = batch_of(kTestBatch)});
      note(seen.back());
      worker.settle();
      std::vector<at::Tensor> back;
      note(back);
      for (size_t i = 0; i < back.size(); ++i) EXPECT_TRUE(at::equal(back[i], seen[kSteps - 1][i]));
    });
    return seen;
  };
  const auto raw = statistics(0), averaged = statistics(kEma);
  ASSERT_GT(raw[0].size(), 2u);
  for (size_t i = 0; i < raw[0].size(); ++i) {
    at::Tensor sum = at::zeros_like(raw[0][i]);
    double shares = 0;
    for (int64_t t = 0; t < kSteps; ++t) {
      const double share = std::pow(kEma, double(kSteps - 1 - t));
      sum += share * raw[size_t(t)][i];
      shares += share;
    }
    EXPECT_LE(relative_difference(averaged.back()[i], sum / shares), 1e-12);
    EXPECT_TRUE(at::equal(raw.back()[i], raw[kSteps - 1][i]));
    EXPECT_GT(relative_difference(averaged.back()[i], raw.back()[i]), 1e-3);
  }
}

/// Averages count as optimizer state: divided if that is divided, and charged to the same category.
TEST(AveragedWeights, TakeTheMemoryOfAState) {
  install_memory_accounting();
  const Model model = small_model("mlp");
  for (const char* way : {"data=1", "data=2", "data=2,sharding=zero1", "data=2,sharding=zero3", "tensor=2"})
    for (bool private_replicas : {false, true}) {
      SCOPED_TRACE(fmt::format("{}, {}", way, private_replicas ? "private" : "shared"));
      const Plan plan = plan_of(way, model);
      const Program program = compile(model, plan, {.private_replicas = private_replicas});
      auto bytes_of = [&](const OptimizerConfig& optimizer) {
        std::vector<int64_t> bytes(size_t(plan.devices));
        LocalWorld world(plan.devices);
        ParameterStore store(program, Precision::fp32);
        run_worker_threads(world, [&](int rank) {
          Worker worker(rank, model, &program, nullptr, store, world, {.seed = 3, .optimizer = optimizer});
          worker.train({.batch = random_batches(model, {16})(0), .learning_rate = 0.1});
          bytes[size_t(rank)] = memory_use(rank).current[size_t(MemoryCategory::optimizer)];
          worker.barrier();
        });
        return bytes;
      };
      const auto momentum = bytes_of({.momentum = 0.9}), average = bytes_of({.ema = 0.9}),
                 both = bytes_of({.momentum = 0.9, .ema = 0.9});
      EXPECT_EQ(average, momentum);
      for (size_t r = 0; r < both.size(); ++r) {
        EXPECT_GT(average[r], 0);
        EXPECT_EQ(both[r], 2 * average[r]);
      }
    }
}

}  // namespace
}  // namespace trireme::test_support
