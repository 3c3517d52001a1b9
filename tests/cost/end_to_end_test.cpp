// The end-to-end model: its formulas agree; epochs to the target from tables, fits and noise scales; their file.
#include "cost/end_to_end.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/expect_error.h"
#include "base/random.h"
#include "cost/epochs_file.h"

namespace trireme {
namespace {

/// Random times, degrees and epochs; a failure shows the seed.
struct Draws {
  explicit Draws(uint64_t seed) : random(seed) {}
  double between(double low, double high) { return low + (high - low) * random.uniform(next++); }
  int degree() { return 1 << int(random.uniform(next++) * 9); }
  Philox random;
  uint64_t next = 0;
};

TEST(EndToEnd, TheGainOfAHybridIsItsStepSpeedupOverTheThreshold) {
  constexpr uint64_t kSeed = 11;
  SCOPED_TRACE(kSeed);
  Draws draw(kSeed);
  constexpr double kSamples = 1e6;
  for (int i = 0; i < 200; ++i) {
    const int n = draw.degree(), m = draw.degree();
    const double batch = std::round(draw.between(1, 128)), t1 = draw.between(0.01, 1), t_n = t1 * draw.between(1, 3),
                 su = draw.between(0.5, m);
    const double e_n = draw.between(1, 200);
    // A replica of m devices takes t_n/su for the batch of one device. The global batch, and so E, is that of n
    // devices.
    const TrainingTime hybrid{t_n / su, kSamples / (batch * n), e_n};
    // Compared with all m n devices as replicas of one device.
    const double t_mn = t1 * draw.between(1, 4), e_mn = e_n * draw.between(0.8, 4);
    const TrainingTime wide{t_mn, kSamples / (batch * n * m), e_mn};
    const HybridChoice choice{m, t_n / t_mn, e_n / e_mn};
    EXPECT_NEAR(wide.seconds() / hybrid.seconds() / (su / choice.threshold()), 1, 1e-12);
  }
}

TEST(EndToEnd, TheWorkedExample) {
  // Two devices make a step 1.32 times as fast: the hybrid wins if doubling the batch needs more than 1/0.66 = 1.515
  // times the epochs.
  EXPECT_GT(1.32, (HybridChoice{2, 1, 0.6599}.threshold()));
  EXPECT_LT(1.32, (HybridChoice{2, 1, 0.6601}.threshold()));
  // A gain of 26.5 % needs 1.917 times the epochs.
  EXPECT_NEAR(1.32 / (HybridChoice{2, 1, 1 / 1.917}.threshold()), 1.265, 0.0005);
  EXPECT_DOUBLE_EQ((HybridChoice{1, 1, 1}.threshold()), 1);
}

TEST(EpochsToTarget, AreThoseOfTheTable) {
  const auto table = EpochsToTarget::table({{256, 8.0}, {64, 4.0}, {1024, std::nullopt}, {64, 5.0}}, "measured");
  ASSERT_EQ(table.points().size(), 3u);
  EXPECT_EQ(*table.at(64).value, 4.5);
  EXPECT_EQ(table.at(64).basis, "measured");
  EXPECT_NEAR(*table.at(128).value, (4.5 + 8) / 2, 1e-12);  // 128 is halfway from 64 to 256 on a log scale
  EXPECT_EQ(table.at(128).basis, "interpolated");
  EXPECT_EQ(*table.at(8).value, 4.5);
  EXPECT_EQ(table.at(8).basis, "as with batch 64");
  EXPECT_EQ(*table.at(256).value, 8);
  for (double batch : {257.0, 512.0, 1024.0}) {
    EXPECT_FALSE(table.at(batch).value) << batch;
    EXPECT_EQ(table.at(batch).basis, "not reached with batch 1024");
  }
  EXPECT_EQ(table.at(2048).basis, "no batch beyond 1024 was tried");
  EXPECT_FALSE(table.at(2048).value);
  EXPECT_FALSE(EpochsToTarget::table({{64, 4.0}, {64, std::nullopt}}, "measured").at(64).value);
}

TEST(EpochsToTarget, OfANoiseScale) {
  const NoiseModel model{.noise_scale = 2000, .least_epochs = 10};
  const auto epochs = EpochsToTarget::of(model);
  EXPECT_DOUBLE_EQ(*epochs.at(2000).value, 20);
  // Steps S and examples E trade off: (S/S_min - 1)(E/E_min - 1) = 1, with S = E/B; S_min is the limit of S for large
  // batches.
  for (double batch : {1.0, 10.0, 500.0, 2000.0, 1e5}) {
    const double e = *epochs.at(batch).value, s = e / batch, least_steps = model.least_epochs / model.noise_scale;
    EXPECT_NEAR((s / least_steps - 1) * (e / model.least_epochs - 1), 1, 1e-9) << batch;
  }
}

TEST(EpochsToTarget, AFitFindsTheModelOfItsPoints) {
  const NoiseModel truth{.noise_scale = 700, .least_epochs = 6};
  std::vector<EpochsPoint> points{{100'000, std::nullopt}};
  for (int64_t batch : {32, 128, 512, 2048}) points.push_back({batch, truth.epochs(double(batch))});
  const auto fit = fit_noise_model(points);
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->model.noise_scale, 700, 1e-6);
  EXPECT_NEAR(fit->model.least_epochs, 6, 1e-9);
  EXPECT_LT(fit->worst, 1e-9);
  points[2].epochs = *points[2].epochs * 1.1;
  EXPECT_GT(fit_noise_model(points)->worst, 0.02);
  EXPECT_FALSE(fit_noise_model({{32, 5.0}, {64, 5.0}}));
  EXPECT_FALSE(fit_noise_model({{32, 5.0}, {64, 4.0}, {128, 3.0}})) << "larger batches need fewer";
}

TEST(EpochsFile, KeepsWhatWasMeasured) {
  const auto path = std::filesystem::temp_directory_path() / ("trireme-epochs-" + std::to_string(::getpid()) + ".json");
  EpochsFile file;
  file.settings = {{"model", "m"}, {"target", 0.5}};
  file.measurements = {
      {.point = {32, 2.5},
       .trained = 2.5,
       .steps = 100,
       .seconds = 3,
       .learning_rate = 0.1,
       .micro_batches = 2,
       .noise_scale = 77},
      {.point = {64, {}}, .trained = 9, .steps = 50, .seconds = 4, .learning_rate = 0.2, .remark = "diverged"}};
  write_epochs_file(file, path);
  const EpochsFile again = read_epochs_file(path);
  EXPECT_EQ(again.source, "measured");
  EXPECT_EQ(again.settings, file.settings);
  ASSERT_EQ(again.measurements.size(), 2u);
  EXPECT_EQ(again.measurements[0].point.epochs, 2.5);
  EXPECT_EQ(again.measurements[0].steps, 100);
  EXPECT_EQ(again.measurements[0].noise_scale, 77);
  EXPECT_EQ(again.measurements[0].micro_batches, 2);
  EXPECT_FALSE(again.measurements[1].point.epochs);
  EXPECT_EQ(again.measurements[1].trained, 9);
  EXPECT_EQ(again.measurements[1].remark, "diverged");
  EXPECT_EQ(*parse_epochs(path.string()).at(32).value, 2.5);
  std::ofstream(path) << R"({"batches": [{"batch": "many"}]})";
  expect_error(Blame::user, {path.string(), "no epochs to a target"}, [&] { read_epochs_file(path); });
  std::filesystem::remove(path);
}

TEST(EpochsFlag, TakesThreeForms) {
  const auto table = parse_epochs("256:4,2048:4.5,8192:-");
  EXPECT_EQ(*table.at(256).value, 4);
  EXPECT_EQ(table.at(2048).basis, "assumed");
  EXPECT_FALSE(table.at(8192).value);
  EXPECT_DOUBLE_EQ(*parse_epochs("noise=1000").at(1000).value, 2);
  EXPECT_DOUBLE_EQ(*parse_epochs("noise=1000,least=12").at(3000).value, 48);
  for (const char* wrong : {"", "256", "a:4", "256:x", "2.5:4", "noise=0", "noise=", "noise=2,most=3", "0:4", "256:-1",
                            "256:nan", "1e300:4", "1e18:4", "256:4,256:8", "noise=2,noise=3"})
    expect_error(Blame::user, {"epochs"}, [&] { parse_epochs(wrong); });
  expect_error(Blame::user, {"nowhere.json"}, [] { parse_epochs("nowhere.json"); });
}

}  // namespace
}  // namespace trireme
