// A run that continues under another plan loses no state, and its curve is that of one device.
#include "runtime/migrate/migrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "equivalence.h"
#include "program/compile.h"
#include "runtime/worker_threads.h"

namespace trireme::test_support {
namespace {

/// A part of a run: steps under one plan.
struct Leg {
  std::string way;
  int64_t steps = 0;
  bool private_replicas = false;
};

struct Settings {
  OptimizerConfig optimizer;
  std::vector<int64_t> batches = {13};
  Precision precision = Precision::fp64;
};

struct LegResult {
  TrainingState at_begin, at_end;  ///< gathered states; a leg without steps has no `at_end`
  std::vector<double> losses;
};

WorkerOptions options_of(const Settings& settings, const TrainingState* from) {
  return {.seed = 3, .batch_norm = BatchNormScope::global, .optimizer = settings.optimizer, .resumed = from};
}

LegResult run_leg(const Model& model, const Leg& leg, const Settings& settings, int64_t first_step,
                  const TrainingState* from) {
  SCOPED_TRACE(leg.way);
  const Plan plan = plan_of(leg.way, model);
  const Program program = compile(model, plan,
                                  {.layer_norms = settings.optimizer.is_layerwise(),
                                   .mixed_precision = settings.precision == Precision::bf16,
                                   .batch_norm = BatchNormScope::global,
                                   .private_replicas = leg.private_replicas});
  LocalWorld world(plan.devices);
  ParameterStore store(program, settings.precision);
  StateGatherer at_begin(program), at_end(program);
  const auto batch_of = random_batches(model, settings.batches);
  std::vector<std::vector<double>> losses(size_t(leg.steps), std::vector<double>(size_t(plan.devices)));
  run_worker_threads(world, [&](int rank) {
    Worker worker(rank, model, &program, nullptr, store, world, options_of(settings, from));
    at_begin.gather(rank, worker, store);
    for (int64_t k = 0; k < leg.steps; ++k) {
      const int64_t step = first_step + k;
      const Batch batch = batch_of(step);
      losses[size_t(k)][size_t(rank)] =
          worker.train({.step = step, .batch = batch, .learning_rate = 0.02, .starts_stream = step == 0}).loss_sum /
          double(batch.samples);
    }
    worker.drain();
    if (leg.steps > 0) at_end.gather(rank, worker, store);
  });
  LegResult result{at_begin.take(), at_end.take(), {}};
  for (const auto& step : losses) {
    result.losses.push_back(0);
    for (double loss : step) result.losses.back() += loss;
  }
  return result;
}

/// Runs all legs; each continues where the one before ended.
std::vector<LegResult> run_legs(const Model& model, const std::vector<Leg>& legs, const Settings& settings) {
  std::vector<LegResult> results;
  int64_t step = 0;
  for (const Leg& leg : legs) {
    results.push_back(run_leg(model, leg, settings, step, results.empty() ? nullptr : &results.back().at_end));
    step += leg.steps;
  }
  return results;
}

using Compare = std::function<void(const at::Tensor& a, const at::Tensor& b, const std::string& name)>;

void compare_maps(const TensorMap& a, const TensorMap& b, const std::string& what, const Compare& compare) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (const auto& [name, tensor] : b) {
    ASSERT_TRUE(a.count(name)) << what << " of " << name;
    compare(a.at(name), tensor, what + " of " + name);
  }
}

void compare_states(const TrainingState& a, const TrainingState& b, const Compare& compare) {
  EXPECT_EQ(a.updates, b.updates);
  EXPECT_EQ(a.bytes(), b.bytes());
  compare_maps(a.weights, b.weights, "weights", compare);
  compare_maps(a.buffers, b.buffers, "buffer", compare);
  compare_maps(a.averaged_buffers, b.averaged_buffers, "averaged buffer", compare);
  compare_maps(a.carried, b.carried, "carried state", compare);
  compare_maps(a.errors, b.errors, "error", compare);
  compare_maps(a.factors, b.factors, "factor", compare);
  ASSERT_EQ(a.optimizer.size(), b.optimizer.size());
  for (const auto& [name, states] : b.optimizer) {
    ASSERT_EQ(a.optimizer.at(name).size(), states.size()) << name;
    for (size_t k = 0; k < states.size(); ++k)
      compare(a.optimizer.at(name)[k], states[k], fmt::format("state {} of {}", k, name));
  }
}

void expect_same_bits(const TrainingState& a, const TrainingState& b) {
  compare_states(a, b, [](const at::Tensor& x, const at::Tensor& y, const std::string& name) {
    EXPECT_TRUE(x.scalar_type() == y.scalar_type() && at::equal(x, y)) << name;
  });
}

/// One plan for each way to hold parameters: slices of shared buckets, shards, stages, private copies, divided copies,
/// several versions.
std::vector<Leg> all_ways() {
  std::vector<Leg> ways;
  for (const char* way :
       {"data=1", "data=3", "tensor=2", "pipeline=3,micro_batches=3", "data=2,tensor=2",
        "data=2,tensor=2,pipeline=2,micro_batches=2", "data=2,pipeline=2,micro_batches=3,schedule=1f1b",
        "pipeline=2,schedule=pipedream,micro_batches=1"})
    for (bool apart : {false, true}) ways.push_back({way, 2, apart});
  for (const char* way :
       {"data=3,sharding=zero1", "data=3,sharding=zero2", "data=3,sharding=zero3", "data=2,tensor=2,sharding=zero1",
        "data=4,sharding=zero2,sharding_group=2", "data=4,sharding=zero3,sharding_group=2"})
    ways.push_back({way, 2, true});
  return ways;
}

OptimizerConfig momentum_with_averages() { return {.momentum = 0.9, .ema = 0.8}; }
OptimizerConfig adamw_with_averages() { return {.kind = &kAdamW, .weight_decay = 0.1, .epsilon = 1e-3, .ema = 0.9}; }

/// Trains under the first plan, then begins the second plan without a step.
void expect_nothing_lost(const Model& model, const Settings& settings, const std::vector<Leg>& ways) {
  for (const Leg& from : ways) {
    const LegResult before = run_leg(model, from, settings, 0, nullptr);
    ASSERT_EQ(before.at_end.updates, from.steps);
    for (Leg to : ways) {
      to.steps = 0;
      SCOPED_TRACE(
          fmt::format("from {} ({}) to {} ({})", from.way, from.private_replicas, to.way, to.private_replicas));
      expect_same_bits(run_leg(model, to, settings, from.steps, &before.at_end).at_begin, before.at_end);
    }
  }
}

TEST(Migration, NothingIsLostBetweenAnyTwoPlans) {
  expect_nothing_lost(small_model("mlp"), {.optimizer = adamw_with_averages()}, all_ways());
}

TEST(Migration, NothingIsLostOfTiedParameters) {
  expect_nothing_lost(small_model("tied-mlp"), {.optimizer = momentum_with_averages()},
                      {{"data=1", 1},
                       {"pipeline=2,micro_batches=2", 1},
                       {"tensor=2", 1},
                       {"data=2,pipeline=2,micro_batches=2,sharding=zero3", 1, true}});
}

TEST(Migration, NothingIsLostOfRunningStatisticsAndTheirAverages) {
  expect_nothing_lost(
      small_model("resnet-bn"), {.optimizer = momentum_with_averages()},
      {{"data=2", 1}, {"tensor=2", 1}, {"pipeline=2,micro_batches=1", 1}, {"data=2,sharding=zero2", 1, true}});
}

TEST(Migration, NothingIsLostOfStatesThatLayersCarry) {
  Settings settings{.optimizer = adamw_with_averages(), .batches = {8}};
  expect_nothing_lost(
      small_model("lstm-lm"), settings,
      {{"data=1", 2}, {"data=3", 2}, {"tensor=2", 2}, {"pipeline=2,micro_batches=3", 2}, {"data=2,tensor=2", 2, true}});
}

/// The weights used for computing are the rounded master weights, also bit for bit.
TEST(Migration, NothingIsLostInBfloat16) {
  Settings settings{.optimizer = adamw_with_averages(), .precision = Precision::bf16};
  expect_nothing_lost(small_model("mlp"), settings,
                      {{"data=2", 2},
                       {"data=2", 2, true},
                       {"tensor=2", 2},
                       {"data=3,sharding=zero1", 2, true},
                       {"data=3,sharding=zero3", 2, true}});
  const Leg leg{"data=2", 3};
  const LegResult whole = run_leg(small_model("mlp"), leg, settings, 0, nullptr);
  const auto halves = run_legs(small_model("mlp"), {{"data=2", 2}, {"data=2", 1, true}}, settings);
  EXPECT_EQ(halves[1].losses[0], whole.losses[2]);
}

/// Expects the losses and the final state of one device from a run that changes its plan between steps.
void expect_curve_of_one_device(const std::string& name, const Settings& settings, const std::vector<Leg>& legs) {
  SCOPED_TRACE(fmt::format("{}, {}", name, settings.optimizer.kind->name));
  const Model model = small_model(name);
  int64_t steps = 0;
  for (const Leg& leg : legs) steps += leg.steps;
  const LegResult expected = run_leg(model, {"data=1", steps}, settings, 0, nullptr);
  const std::vector<LegResult> results = run_legs(model, legs, settings);
  std::vector<double> losses;
  for (const LegResult& leg : results) losses.insert(losses.end(), leg.losses.begin(), leg.losses.end());
  ASSERT_EQ(losses.size(), expected.losses.size());
  for (size_t s = 0; s < losses.size(); ++s) {
    ASSERT_TRUE(std::isfinite(expected.losses[s]));
    EXPECT_LE(std::abs(losses[s] - expected.losses[s]), 1e-10 * std::abs(expected.losses[s])) << "step " << s;
  }
  compare_states(results.back().at_end, expected.at_end,
                 [](const at::Tensor& a, const at::Tensor& b, const std::string& what) {
                   EXPECT_LE(relative_difference(a, b, 1e-6), 1e-10) << what;
                 });
}

std::vector<Leg> travel() {
  return {{"data=3", 2},
          {"tensor=2", 1},
          {"pipeline=3,micro_batches=3", 2, true},
          {"data=3,sharding=zero3", 1, true},
          {"data=2,tensor=2", 2},
          {"data=1", 1},
          {"data=3,sharding=zero1", 2, true},
          {"data=2,pipeline=2,micro_batches=3,schedule=1f1b", 1},
          {"data=2", 1, true}};
}

TEST(Migration, CurvesAreThoseOfOneDevice) {
  const OptimizerConfig sgd, momentum{.momentum = 0.9, .nesterov = true, .weight_decay = 0.01},
      lamb{.kind = &kLamb, .weight_decay = 0.05, .epsilon = 1e-3, .ema = 0.9},
      adagrad{.kind = &kAdagrad, .epsilon = 1e-3, .rate_decay = 0.1, .initial_accumulator = 0.1},
      rmsprop{.kind = &kRmsprop, .momentum = 0.8, .epsilon = 1e-2, .alpha = 0.9, .centered = true};
  for (const OptimizerConfig& optimizer :
       {sgd, momentum, momentum_with_averages(), adamw_with_averages(), lamb, adagrad, rmsprop}) {
    expect_curve_of_one_device("mlp", {.optimizer = optimizer, .batches = ragged_batches()}, travel());
    expect_curve_of_one_device("tied-mlp", {.optimizer = optimizer},
                               {{"data=2", 2}, {"pipeline=2,micro_batches=2", 2}, {"tensor=2", 2}});
  }
}

TEST(Migration, CurvesOfOtherLayers) {
  expect_curve_of_one_device("lstm-lm", {.optimizer = adamw_with_averages(), .batches = {8}},
                             {{"data=2", 2}, {"tensor=2", 1}, {"pipeline=2,micro_batches=3", 2}, {"data=3", 1, true}});
  expect_curve_of_one_device(
      "transformer-lm", {.optimizer = adamw_with_averages()},
      {{"data=2,tensor=2", 1}, {"pipeline=2,micro_batches=2", 1}, {"data=3,sharding=zero2", 1, true}});
  expect_curve_of_one_device("resnet-bn", {.optimizer = momentum_with_averages()},
                             {{"data=2", 1}, {"tensor=2", 1}, {"pipeline=2,micro_batches=1", 1}});
}

Leg under_power_sgd(int workers, const std::string& more, int64_t steps) {
  return {fmt::format("data={}{},compression=powersgd:1", workers, more), steps, true};
}

/// PowerSGD's result depends only on the sum of what its workers have, so its curve does not depend on their number.
TEST(Migration, WhatPowerSgdOwesGoesOnWithAnyNumberOfWorkers) {
  const Settings settings{.optimizer = momentum_with_averages()};
  for (const auto& [name, more] : {std::pair("mlp", ""), std::pair("mlp", ",tensor=2"), std::pair("convnet", ""),
                                   std::pair("mlp", ",pipeline=2,micro_batches=2")}) {
    SCOPED_TRACE(fmt::format("{}{}", name, more));
    const Model model = small_model(name);
    const LegResult whole = run_leg(model, under_power_sgd(2, more, 7), settings, 0, nullptr);
    const std::vector<LegResult> parts = run_legs(model,
                                                  {under_power_sgd(2, more, 2), under_power_sgd(3, more, 2),
                                                   under_power_sgd(2, more, 2), under_power_sgd(2, more, 1)},
                                                  settings);
    std::vector<double> losses;
    for (const LegResult& leg : parts) losses.insert(losses.end(), leg.losses.begin(), leg.losses.end());
    ASSERT_EQ(losses.size(), whole.losses.size());
    for (size_t s = 0; s < losses.size(); ++s)
      EXPECT_LE(std::abs(losses[s] - whole.losses[s]), 1e-9 * std::abs(whole.losses[s])) << "step " << s;
    ASSERT_FALSE(whole.at_end.errors.empty());
    for (const auto& [parameter, error] : whole.at_end.errors)
      EXPECT_GT(error.abs().max().item<double>(), 1e-6) << parameter;
    compare_states(parts.back().at_end, whole.at_end,
                   [](const at::Tensor& a, const at::Tensor& b, const std::string& what) {
                     EXPECT_LE(relative_difference(a, b, 1e-6), 1e-8) << what;
                   });
  }
}

FactorsLeft left_under(const std::string& way, const Model& model, const TrainingState& state) {
  return factors_left(compile(model, plan_of(way, model), {.private_replicas = true}), state);
}

TEST(Migration, PlansWithoutPowerSgdDropWhatItOwes) {
  const Model model = small_model("mlp");
  const LegResult before = run_leg(model, under_power_sgd(2, "", 3), {}, 0, nullptr);
  TrainingState expected = before.at_end;
  const size_t parameters = expected.errors.size();
  ASSERT_GT(parameters, 0u);
  expected.errors.clear();
  expected.factors.clear();
  for (const char* way : {"data=1", "data=2", "data=1,compression=powersgd:1", "data=2,sharding=zero1",
                          "data=2,compression=bf16", "pipeline=2,micro_batches=2,compression=powersgd:1"}) {
    SCOPED_TRACE(way);
    const FactorsLeft left = left_under(way, model, before.at_end);
    EXPECT_EQ(left.errors.size(), parameters);
    EXPECT_TRUE(left.factors.empty());
    expect_same_bits(run_leg(model, {way, 0, true}, {}, 3, &before.at_end).at_begin, expected);
  }
}

/// Q belongs to one rank and one division of a parameter; the errors do not.
TEST(Migration, OtherFactorsOfPowerSgdAreDrawnAnew) {
  const Model model = small_model("mlp");
  const LegResult before = run_leg(model, under_power_sgd(2, "", 3), {}, 0, nullptr);
  const FactorsLeft same = left_under("data=3,compression=powersgd:1", model, before.at_end);
  EXPECT_TRUE(same.errors.empty() && same.factors.empty());
  for (const char* way : {"data=2,compression=powersgd:2", "data=2,tensor=2,compression=powersgd:1"}) {
    SCOPED_TRACE(way);
    const FactorsLeft left = left_under(way, model, before.at_end);
    EXPECT_FALSE(left.factors.empty());
    const LegResult after = run_leg(model, {way, 0, true}, {}, 3, &before.at_end);
    for (const std::string& parameter : left.factors) {
      if (std::find(left.errors.begin(), left.errors.end(), parameter) != left.errors.end()) continue;
      EXPECT_TRUE(at::equal(after.at_begin.errors.at(parameter), before.at_end.errors.at(parameter))) << parameter;
    }
    for (const auto& [name, factor] : after.at_begin.factors)
      EXPECT_GT(factor.abs().max().item<double>(), 0) << name << " was drawn";
  }
}

}  // namespace
}  // namespace trireme::test_support
