// "Same seed, any plan, same curve": trains a few steps under a plan and on one device and compares losses, gradients
// and parameters. Models are small, so that all cases take minutes.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "plan/named.h"
#include "support/device_under_test.h"
#include "train/lockstep.h"
#include "trireme/model.h"

namespace trireme::test_support {

constexpr int64_t kBatch = 16;  ///< plans are made and validated for this batch
constexpr int64_t kClasses = 4;

/// Batch sizes of consecutive steps. No size can be divided by every degree. The last is less than most data degrees
/// and numbers of micro-batches, so that some workers have no samples.
inline std::vector<int64_t> ragged_batches() { return {13, 7, 2}; }

/// "mlp", "convnet", "resnet" (without batch norm), "resnet-bn", "skip", "dropout-mlp", "tied-mlp", "inception",
/// "lstm-lm", "transformer-lm", "transformer-classifier".
Model small_model(const std::string& name);

/// Random samples keyed by step, the same for every plan.
std::function<Batch(int64_t)> random_batches(const Model& model, std::vector<int64_t> sizes, uint64_t seed = 5);

/// Optimizer and clipping; the same for the reference and the plan under test.
struct Recipe {
  std::string name;
  OptimizerConfig optimizer;
  double clip_norm = 0;
};
/// Plain SGD; SGD with momentum; with Nesterov momentum, weight decay and clipping; Adam; AdamW with clipping.
std::vector<Recipe> recipes();

struct Comparison {
  Precision precision = Precision::fp64;
  double tolerance = 1e-10;
  std::vector<int64_t> batches = ragged_batches();
  BatchNormScope batch_norm = BatchNormScope::global;
};

/// Runs a recipe under a plan and returns the values after each step. `places`: where the workers compute; empty: on
/// the device under test.
std::vector<Snapshot> run_recipe(const Model& model, const Plan& plan, const Recipe& recipe,
                                 const Comparison& comparison, bool one_pass,
                                 const std::vector<c10::Device>& places = {});

/// One device; `micro_batches` only if they change the result (batch norm).
Plan single_plan(const Model& model, int micro_batches = 1);

/// Compares parameters by name, gradients if both have them, and averages if they are kept.
void expect_same(const std::vector<Snapshot>& actual, const std::vector<Snapshot>& expected, double tolerance);

/// Runs `plan` with two passes and with one and compares both with one device.
void expect_equivalent(const Model& model, const Plan& plan, const Recipe& recipe, const Comparison& comparison);

/// A uniform plan such as "data=2,pipeline=2,micro_batches=3" on as many devices as the product of its degrees.
Plan plan_of(const std::string& degrees, const Model& model);

/// All combinations of degrees.
std::vector<std::string> all_degrees();

}  // namespace trireme::test_support
