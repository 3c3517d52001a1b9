// Epochs to the target measured with accumulated batches, and projections to many devices.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "../base/expect_error.h"
#include "experiment/make_plan.h"
#include "forecast/projection.h"
#include "memory_data.h"
#include "train/measure_epochs.h"
#include "train/trainer.h"

namespace trireme::test_support {
namespace {

class MeasuredEpochs : public ::testing::Test {
 protected:
  MeasuredEpochs() {
    data.train = std::make_shared<MemoryDataset>(240, 1);
    data.test = std::make_shared<MemoryDataset>(90, 2);
    experiment.file = "tiny.toml";
    experiment.batch = 20;
    experiment.length = {30, Length::Unit::epochs};
    experiment.target = 0.7;
    experiment.precision = Precision::fp64;
    experiment.model_name = "mlp";
    experiment.model_options = {{"hidden", 32}};
    experiment.optimizer.learning_rate = 0.02;
    experiment.optimizer.momentum = 0.9;
  }

  std::optional<EpochsMeasurement> measure(int64_t batch, const EpochsRequest& request = {}) {
    const Model model = build_model(experiment, data);
    return measure_epochs(experiment, model, data, batch, request, observer, interrupted);
  }

  TaskData data;
  RunSpec experiment;
  TrainObserver observer;
  std::atomic<bool> interrupted{false};
};

TEST_F(MeasuredEpochs, AreThoseOfTheWholeBatch) {
  for (int64_t batch : {20, 60, 120}) {
    const auto measured = measure(batch);
    ASSERT_TRUE(measured && measured->point.epochs) << batch;
    EXPECT_EQ(measured->micro_batches, batch / 20);
    EXPECT_DOUBLE_EQ(measured->learning_rate, 0.02 * double(batch) / 20);
    // One worker that computes the whole batch at once, until the end.
    RunSpec whole = with_batch(experiment, batch, RateRule::linear);
    const Model model = build_model(whole, data);
    const RunResult row = train(whole, model, data, make_plan("single", whole, model, 1), observer, interrupted);
    ASSERT_TRUE(row.to_target) << batch;
    EXPECT_EQ(measured->steps, row.to_target->steps);
    EXPECT_DOUBLE_EQ(*measured->point.epochs, row.to_target->epochs);
    EXPECT_DOUBLE_EQ(double(measured->steps * batch) / 240, *measured->point.epochs);
  }
}

TEST_F(MeasuredEpochs, ReportTargetsThatWereNotReached) {
  experiment.length = {1, Length::Unit::epochs};
  experiment.target = 0.9999;
  const auto short_run = measure(40);
  ASSERT_TRUE(short_run);
  EXPECT_FALSE(short_run->point.epochs);
  EXPECT_EQ(short_run->trained, 1);
  EXPECT_EQ(short_run->steps, 6);
  experiment.optimizer.learning_rate = 1e200;
  const auto diverged = measure(40);
  ASSERT_TRUE(diverged);
  EXPECT_FALSE(diverged->point.epochs);
  EXPECT_EQ(diverged->remark.substr(0, 8), "diverged");
  expect_error(Blame::user, {"--batches", "480", "240"}, [&] { measure(480); });
  experiment.target.reset();
  expect_error(Blame::user, {"tiny.toml", "target"}, [&] { measure(20); });
  experiment.target = 0.99;
  interrupted = true;
  experiment.length = {1000, Length::Unit::epochs};
  experiment.optimizer.learning_rate = 1e-9;
  EXPECT_FALSE(measure(20));
}

TEST_F(MeasuredEpochs, RatesAndMicroBatchesFollowTheBatch) {
  experiment.optimizer.learning_rate = 0.05;
  experiment.schedule.minimum = 0.001;
  EXPECT_DOUBLE_EQ(with_batch(experiment, 80, RateRule::linear).optimizer.learning_rate, 0.2);
  EXPECT_DOUBLE_EQ(with_batch(experiment, 80, RateRule::linear).schedule.minimum, 0.004);
  EXPECT_DOUBLE_EQ(with_batch(experiment, 80, RateRule::square_root).optimizer.learning_rate, 0.1);
  EXPECT_DOUBLE_EQ(with_batch(experiment, 80, RateRule::fixed).optimizer.learning_rate, 0.05);
  experiment.schedule.reference_batch = 10;
  const RunSpec scaled = with_batch(experiment, 80, RateRule::linear);
  EXPECT_DOUBLE_EQ(learning_rate_at(scaled, 0, 10, 10), 0.05 * 8);
  EXPECT_EQ(scaled.batch, 80);
  EXPECT_EQ(micro_batches_for(experiment, 20, {}), 1);
  EXPECT_EQ(micro_batches_for(experiment, 21, {}), 2);
  EXPECT_EQ(micro_batches_for(experiment, 64, {.micro_batch = 16}), 4);
  EXPECT_EQ(micro_batches_for(experiment, 64, {.devices = 2, .micro_batch = 16}), 2);
  expect_error(Blame::user, {"--batches", "2"}, [&] { micro_batches_for(experiment, 2, {.devices = 4}); });
}

/// Step times by formula: a sample of a worker takes a second, a worker of M devices is su(M) times as fast, and n
/// workers wait for each other's gradients.
struct World {
  std::map<int, double> tensor = {}, pipeline = {}, placement = {};  ///< su by M; none: no such plan
  double waiting = 0.1;

  double efficiency(int workers) const { return 1 / (1 + waiting * std::log2(double(workers))); }
  std::optional<double> operator()(const std::string& strategy, int devices, int64_t batch, int model_degree) const {
    if (strategy == "placement") {
      if (!placement.contains(model_degree)) return std::nullopt;
      const int replicas = devices / model_degree;
      return double(batch) / replicas / placement.at(model_degree) / efficiency(replicas);
    }
    int data = devices, degree = 1;
    char kind[16] = {};
    if (std::sscanf(strategy.c_str(), "data=%d,%15[a-z]=%d", &data, kind, &degree) < 1) return std::nullopt;
    EXPECT_EQ(data * degree, devices) << strategy;
    EXPECT_EQ(degree, model_degree) << strategy;
    double su = 1;
    if (degree > 1) {
      const auto& table = std::string(kind) == "tensor" ? tensor : pipeline;
      if (!table.contains(degree)) return std::nullopt;
      su = table.at(degree);
    }
    return double(batch) / data / su / efficiency(data);
  }
};

TEST(Projection, AgreesWithTheRule) {
  const auto epochs =
      EpochsToTarget::table({{64, 4.0}, {2048, 4.0}, {4096, 7.0}, {8192, 16.0}, {16384, 23.0}}, "assumed");
  for (double su : {1.05, 1.2, 1.32, 1.6, 1.9}) {
    SCOPED_TRACE(su);
    const World world{.tensor = {{2, su}}, .pipeline = {{2, su * 0.9}}};
    const ProjectionRequest request{.devices = doubling_devices(1, 256), .batch = 64, .epoch_samples = 1'000'000};
    const auto rows = project(request, epochs, world);
    ASSERT_EQ(rows.size(), 9u);
    EXPECT_FALSE(rows[0].hybrid);
    int first = 0;
    for (size_t i = 1; i < rows.size(); ++i) {
      const int n = rows[i].devices, half = n / 2;
      ASSERT_TRUE(rows[i].data && rows[i].hybrid);
      EXPECT_EQ(rows[i].hybrid->strategy, "data=" + std::to_string(half) + ",tensor=2");
      EXPECT_EQ(rows[i].hybrid->batch, 64 * half);
      const HybridChoice choice{2, world.efficiency(n) / world.efficiency(half),
                                *epochs.at(64 * half).value / *epochs.at(64 * n).value};
      EXPECT_NEAR(*rows[i].data->seconds() / *rows[i].hybrid->seconds(), su / choice.threshold(), 1e-9) << n;
      EXPECT_EQ(*rows[i].hybrid->seconds() < *rows[i].data->seconds(), su > choice.threshold()) << n;
      if (first == 0 && su > choice.threshold()) first = n;
    }
    const ProjectedRow* crossover = crossover_of(rows);
    EXPECT_EQ(crossover ? crossover->devices : 0, first);
  }
}

TEST(Projection, SaysWhereDataParallelismIsFasterAgain) {
  const auto row = [](int devices, double data, double hybrid) {
    ProjectedRow r{.devices = devices, .data = Projected{}, .hybrid = Projected{}};
    for (auto [projected, seconds] : {std::pair{&*r.data, data}, {&*r.hybrid, hybrid}}) {
      projected->step_seconds = seconds;
      projected->steps_per_epoch = 1;
      projected->epochs.value = 1;
    }
    return r;
  };
  const std::vector<ProjectedRow> rows{row(1, 1, 2), row(2, 2, 1), row(4, 1, 2), row(8, 2, 1), row(16, 1, 2)};
  EXPECT_EQ(crossover_of(rows)->devices, 2);
  EXPECT_EQ(data_faster_again(rows), (std::vector<int>{4, 16}));
  EXPECT_TRUE(data_faster_again({row(1, 1, 2), row(2, 2, 1)}).empty());
  EXPECT_TRUE(data_faster_again({row(1, 1, 2)}).empty());
}

TEST(Projection, StrategiesThatMissTheTargetLose) {
  const auto epochs = EpochsToTarget::table({{128, 1.0}, {4096, 1.0}, {8192, std::nullopt}}, "assumed");
  const World world{.tensor = {{2, 1.22}}, .pipeline = {}, .waiting = 0};
  const ProjectionRequest request{.devices = doubling_devices(1, 64), .batch = 128, .epoch_samples = 128 * 64};
  const auto rows = project(request, epochs, world);
  EXPECT_EQ(crossover_of(rows)->devices, 64);
  EXPECT_FALSE(rows.back().data->seconds());
  EXPECT_EQ(fastest_data(rows)->devices, 32);
  EXPECT_EQ(fastest_hybrid(rows)->devices, 64);
  // The gain over the largest data parallelism that reaches the target is only that of the step.
  EXPECT_NEAR(*fastest_data(rows)->seconds() / *fastest_hybrid(rows)->seconds(), 1.22, 1e-9);
}

TEST(Projection, OfABatchPerDevice) {
  const World world{.tensor = {{2, 1.5}}, .pipeline = {{2, 1.7}}};
  const auto epochs = EpochsToTarget::of({.noise_scale = 100, .least_epochs = 3});
  const auto rows = project(
      {.devices = {8, 32}, .batch = 16, .batch_is = ProjectionRequest::BatchIs::per_device, .epoch_samples = 5120},
      epochs, world);
  for (const ProjectedRow& row : rows) {
    ASSERT_TRUE(row.data && row.hybrid);
    EXPECT_EQ(row.data->batch, 16 * row.devices);
    EXPECT_EQ(row.hybrid->batch, 16 * row.devices) << "all devices of a worker count";
    EXPECT_DOUBLE_EQ(row.data->steps_per_epoch, 5120.0 / (16 * row.devices));
  }
}

TEST(Projection, OfAFixedGlobalBatch) {
  const World world{.tensor = {{2, 1.5}, {4, 2.0}}, .pipeline = {{2, 1.7}}};
  const auto epochs = EpochsToTarget::of({.noise_scale = 100, .least_epochs = 3});
  const auto rows =
      project({.devices = {8, 32}, .batch = 16, .batch_is = ProjectionRequest::BatchIs::global, .epoch_samples = 1600},
              epochs, world);
  EXPECT_EQ(rows[0].data->batch, 16);
  EXPECT_EQ(rows[0].hybrid->batch, 16);
  EXPECT_DOUBLE_EQ(*rows[0].data->epochs.value, 3 * 1.16);
  EXPECT_DOUBLE_EQ(*rows[0].data->seconds(), 2 / world.efficiency(8) * 100 * 3 * 1.16);
  EXPECT_EQ(rows[0].hybrid->strategy, "data=4,pipeline=2,schedule=1f1b");
  EXPECT_FALSE(rows[1].data) << "16 samples are not enough for 32 workers";
  EXPECT_EQ(rows[1].hybrid->model_degree, 2);
}

/// Replicas of each size.
TEST(Projection, OfPlacements) {
  const World world{.tensor = {{2, 1.4}}, .placement = {{2, 1.5}, {4, 3.2}}};
  const auto rows = project({.devices = {2, 4, 16}, .batch = 4, .epoch_samples = 400},
                            EpochsToTarget::table({{4, 1.0}, {16, 1.0}, {32, 1.0}, {64, 1.0}}, "assumed"), world);
  EXPECT_EQ(name_of(*rows[0].hybrid), "placement");
  EXPECT_EQ(rows[0].hybrid->model_degree, 2);
  EXPECT_EQ(name_of(*rows[1].hybrid), "placement");
  EXPECT_EQ(rows[1].hybrid->model_degree, 4);
  EXPECT_EQ(name_of(*rows[2].hybrid), "placement 4 x data 4");
  EXPECT_EQ(rows[2].hybrid->batch, 16);
  EXPECT_NEAR(rows[2].hybrid->step_seconds, 4 / 3.2 / world.efficiency(4), 1e-12);
}

TEST(Projection, DoublesDevices) {
  EXPECT_EQ(doubling_devices(1, 8), (std::vector<int>{1, 2, 4, 8}));
  EXPECT_EQ(doubling_devices(3, 10), (std::vector<int>{3, 6, 10}));
  EXPECT_EQ(doubling_devices(4, 4), (std::vector<int>{4}));
}

}  // namespace
}  // namespace trireme::test_support
