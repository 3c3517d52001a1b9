// The comparison of `trireme verify`: equal runs pass; different runs and NaNs do not.
#include "train/verify.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "../base/expect_error.h"
#include "experiment/batches.h"
#include "experiment/make_plan.h"
#include "memory_data.h"
#include "plan/named.h"
#include "train/lockstep.h"
#include "train/trainer.h"

namespace trireme::test_support {
namespace {

TEST(RelativeDifference, Values) {
  const at::Tensor b = at::tensor({2.0, -4.0, 1.0}, at::kDouble);
  EXPECT_EQ(relative_difference(b, b), 0);
  EXPECT_DOUBLE_EQ(relative_difference(b + at::tensor({0.0, 0.0, 0.4}, at::kDouble), b), 0.1);
  EXPECT_EQ(relative_difference(at::zeros({3}), at::zeros({3})), 0);
  EXPECT_EQ(relative_difference(at::full({3}, 0.5), at::zeros({3})), 0.5);
}

TEST(RelativeDifference, IsHeldToAFloorWhereTheTensorIsSmaller) {
  const at::Tensor noise = at::full({3}, 1e-17, at::kDouble), other = at::full({3}, -1e-17, at::kDouble),
                   b = at::full({3}, 2.0, at::kDouble);
  EXPECT_DOUBLE_EQ(relative_difference(noise, other), 2);
  EXPECT_DOUBLE_EQ(relative_difference(noise, other, 1e-4), 2e-13);
  EXPECT_DOUBLE_EQ(relative_difference(b + 0.5, b, 1e-4), 0.25);
}

/// Comparisons with NaN are false: without a check a diverged run would pass.
TEST(RelativeDifference, NothingIsProvenByNaNs) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  const at::Tensor good = at::ones({2}, at::kDouble);
  for (double bad : {nan, infinity}) {
    const at::Tensor other = at::tensor({1.0, bad}, at::kDouble);
    EXPECT_EQ(relative_difference(good, other), infinity);
    EXPECT_EQ(relative_difference(other, good), infinity);
    EXPECT_EQ(relative_difference(other, other), infinity);
  }
}

/// Images of noise, with four classes.
struct Images final : Dataset {
  int64_t size() const override { return 24; }
  Shape sample_shape() const override { return {3, 16, 16}; }
  int64_t classes() const override { return 4; }
  Samples get(std::span<const int64_t> indices, const Draw&) const override {
    const auto n = int64_t(indices.size());
    Samples s{at::empty({n, 3, 16, 16}), at::empty({n}, at::kLong)};
    Philox random(7);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t k = 0; k < 768; ++k)
        s.data.data_ptr<float>()[i * 768 + k] = float(random.normal(uint64_t(indices[size_t(i)] * 768 + k)));
      s.target.data_ptr<int64_t>()[i] = indices[size_t(i)] % 4;
    }
    s.data = s.data.contiguous(at::MemoryFormat::ChannelsLast);
    return s;
  }
};

class Verify : public ::testing::Test {
 protected:
  Verify() {
    experiment.file = "tiny.toml";
    experiment.batch = 12;
    experiment.model_name = "mlp";
    experiment.model_options = {{"hidden", 8}};
    experiment.precision = Precision::fp64;
    experiment.optimizer.momentum = 0.9;
    data.train = data.test = std::make_shared<MemoryDataset>(31, 1);
  }
  VerifyResult run(const std::string& plan, int devices, int64_t steps = 5) {
    const Model model = build_model(experiment, data);
    return verify(experiment, model, data, make_plan(plan, experiment, model, devices), steps);
  }
  RunSpec experiment;
  TaskData data;
};

TEST_F(Verify, PassesUnderEveryPrecision) {
  for (Precision precision : {Precision::fp64, Precision::fp32, Precision::bf16}) {
    experiment.precision = precision;
    const VerifyResult r = run("hybrid:tensor", 4);
    EXPECT_TRUE(r.ok()) << name_of(precision);
    EXPECT_EQ(r.steps, 5);
    EXPECT_EQ(r.tolerance, verify_tolerance(precision));
    EXPECT_EQ(r.note, "");
    ASSERT_EQ(r.rows.size(), 6u);
    EXPECT_EQ(r.rows[0].parameter, "fc1.weight");
  }
}

/// Adam's first steps have the same length whatever the gradient, so rounding decides where a gradient is nearly zero.
TEST_F(Verify, Bf16UnderAdamPasses) {
  experiment.precision = Precision::bf16;
  experiment.model_options = {{"hidden", 64}};
  experiment.optimizer = {.kind = &kAdamW, .learning_rate = 0.01};
  for (const char* plan : {"data", "tensor", "hybrid:tensor"}) {
    const VerifyResult r = run(plan, 4, 12);
    EXPECT_TRUE(r.ok()) << plan;
    for (const VerifyRow& row : r.rows) EXPECT_GE(row.weights.allowed, r.tolerance) << row.parameter;
  }
  experiment.optimizer.learning_rate = 1e200;
  EXPECT_FALSE(run("data", 2, 6).ok()) << "nothing is proven by a run that diverges";
}

/// Two runs of one device in bf16 and one in fp32, of which a test makes wrong ones.
class Bf16Runs : public Verify {
 protected:
  Bf16Runs() {
    experiment.model_options = {{"hidden", 64}};
    options.worker.seed = experiment.seed;
    options.worker.optimizer = {.kind = &kAdamW};
    options.learning_rate = 0.01;
    options.steps = 6;
    initial = train(Precision::fp32, 1, /*rate=*/0).front().parameters;
  }
  /// `later`: with the samples of as many steps later.
  std::vector<Snapshot> train(Precision precision, int micro_batches, double rate = 0.01, int64_t later = 0) {
    const Model model = build_model(experiment, data);
    const Plan plan = named_plan(fmt::format("data=1,micro_batches={}", micro_batches), model, Cluster::uniform(1),
                                 experiment.batch, {});
    const Batches batches(experiment, data);
    const auto batch_of = [&](int64_t step) { return batch_from(batches.training(step + later)); };
    LockstepOptions asked = options;
    asked.precision = precision;
    asked.learning_rate = rate;
    return run_lockstep(model, plan, batch_of, asked);
  }
  bool is_equal(const std::vector<Snapshot>& actual) {
    VerifyResult result;
    result.tolerance = verify_tolerance(Precision::bf16);
    compare_bf16_runs(train(Precision::bf16, 1), actual, train(Precision::fp32, 1), initial, result);
    return result.ok();
  }

  LockstepOptions options;
  std::vector<at::Tensor> initial;
};

TEST_F(Bf16Runs, AnotherOrderOfSumsIsEqual) { EXPECT_TRUE(is_equal(train(Precision::bf16, 3))); }

TEST_F(Bf16Runs, WrongGradientsAreFound) {
  EXPECT_FALSE(is_equal(train(Precision::bf16, 1, 0.01, /*later=*/1))) << "of other samples";
  std::vector<Snapshot> doubled = train(Precision::bf16, 1), lost = train(Precision::bf16, 1);
  for (Snapshot& step : doubled)
    for (at::Tensor& gradient : step.gradients) gradient = 2 * gradient;
  EXPECT_FALSE(is_equal(doubled)) << "summed twice, which Adam's steps do not show";
  lost.front().gradients[0].slice(0, 0, 16).zero_();
  EXPECT_FALSE(is_equal(lost)) << "a shard's gradient is lost in one step";
}

TEST_F(Bf16Runs, WrongWeightsAreFound) {
  std::vector<Snapshot> kept = train(Precision::bf16, 1), slow = train(Precision::bf16, 1, /*rate=*/0.001);
  for (Snapshot& step : kept)
    for (size_t p = 0; p < initial.size(); ++p) step.parameters[p].slice(0, 0, initial[p].size(0) / 2) = 0;
  EXPECT_FALSE(is_equal(kept)) << "half of each tensor is lost";
  EXPECT_FALSE(is_equal(slow)) << "a tenth of the learning rate";
  std::vector<Snapshot> still = train(Precision::bf16, 1);
  for (Snapshot& step : still) step.parameters = initial;
  EXPECT_FALSE(is_equal(still)) << "weights are not updated";
}

TEST_F(Verify, ADivergedRunDoesNotPass) {
  experiment.optimizer.learning_rate = 1e200;
  const VerifyResult r = run("data", 2, 6);
  EXPECT_FALSE(r.ok());
}

TEST_F(Verify, BatchNorm) {
  experiment.model_name = "cifar-resnet18";
  experiment.model_options = {{"width", 4}};
  data.train = data.test = std::make_shared<Images>();
  expect_error(Blame::user, {"tiny.toml: batch_norm: \"local\"", "--set batch_norm=global"},
               [&] { run("data", 2, 1); });
  experiment.batch_norm = BatchNormScope::global;
  EXPECT_TRUE(run("data", 2, 2).ok());
  experiment.micro_batches = 3;
  const VerifyResult piped = run("pipeline", 2, 2);
  EXPECT_TRUE(piped.ok());
  EXPECT_NE(piped.note.find("same 3 micro-batches"), std::string::npos);
}

/// With global batch norm, running statistics are those of one device too. With local batch norm the evaluation uses
/// those of one worker, and the result warns that the curve differs.
TEST_F(Verify, BatchNormInEvaluation) {
  experiment.model_name = "cifar-resnet18";
  experiment.model_options = {{"width", 4}};
  experiment.batch_norm = BatchNormScope::global;
  experiment.length = {4, Length::Unit::steps};
  data.train = data.test = std::make_shared<Images>();
  const Model model = build_model(experiment, data);
  TrainObserver observer;
  const std::atomic<bool> interrupted{false};
  auto run_plan = [&](const std::string& plan, int devices) {
    return train(experiment, model, data, make_plan(plan, experiment, model, devices), observer, interrupted);
  };
  const RunResult single = run_plan("single", 1);
  for (const char* plan : {"data", "tensor", "hybrid:tensor"}) {
    const RunResult other = run_plan(plan, 4);
    ASSERT_EQ(other.status, RunStatus::ok) << other.reason;
    EXPECT_NEAR(other.test->loss, single.test->loss, 1e-9 * single.test->loss) << plan;
    for (const std::string& warning : other.warnings)
      EXPECT_EQ(warning.find("batch_norm"), std::string::npos) << warning;
  }
  experiment.batch_norm = BatchNormScope::local;
  const RunResult local = run_plan("data", 4);
  EXPECT_EQ(local.status, RunStatus::ok) << local.reason;
  EXPECT_TRUE(std::isfinite(local.test->loss));
  EXPECT_TRUE(std::any_of(local.warnings.begin(), local.warnings.end(),
                          [](const std::string& w) { return w.find("per data shard") != std::string::npos; }));
}

}  // namespace
}  // namespace trireme::test_support
