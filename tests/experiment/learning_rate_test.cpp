// [optimizer] tables: learning-rate schedules step by step, the keys of each kind, the errors of wrong ones.
#include "experiment/learning_rate.h"

#include <cmath>
#include <numbers>

#include "../base/expect_error.h"
#include "experiment/experiment.h"
#include "experiment/read_optimizer.h"

namespace trireme {
namespace {

OptimizerSettings read(const std::string& text) {
  const ConfigTable table = ConfigTable::from_string(text, "file.toml");
  OptimizerSettings settings = read_optimizer(table);
  table.finish();
  return settings;
}

void refuse(const std::vector<std::string>& parts, const std::string& text) {
  SCOPED_TRACE(text);
  expect_error(Blame::user, parts, [&] { read(text); });
}

constexpr int64_t kTotal = 100, kEpoch = 10;

double rate_at(const OptimizerSettings& s, int64_t step, int64_t batch = 128) {
  return scheduled_rate(s.schedule, s.optimizer.learning_rate, batch, step, kTotal, kEpoch);
}

TEST(Schedule, Step) {
  const auto s = read("learning_rate = 0.8\nschedule = \"step\"\ndecay_every = \"3 epochs\"\ndecay_factor = 0.5");
  for (int64_t step = 0; step < kTotal; ++step)
    EXPECT_DOUBLE_EQ(rate_at(s, step), 0.8 * std::pow(0.5, step / 30)) << step;
  EXPECT_DOUBLE_EQ(rate_at(read("learning_rate = 1\nschedule = \"step\"\ndecay_every = \"7 steps\""), 21), 1e-3);
}

TEST(Schedule, Multistep) {
  const auto s =
      read("learning_rate = 1\nschedule = \"multistep\"\ndecay_at = [\"3 epochs\", \"45 steps\", \"9 epochs\"]");
  for (int64_t step = 0; step < kTotal; ++step)
    EXPECT_DOUBLE_EQ(rate_at(s, step), step < 30 ? 1 : step < 45 ? 0.1 : step < 90 ? 0.01 : 0.001) << step;
}

TEST(Schedule, Cosine) {
  const auto s = read("learning_rate = 0.5\nschedule = \"cosine\"\nminimum_learning_rate = 0.1\nwarmup = \"20 steps\"");
  for (int64_t step = 20; step < kTotal; ++step)
    EXPECT_NEAR(rate_at(s, step), 0.1 + 0.2 * (1 + std::cos(std::numbers::pi * double(step - 20) / 80)), 1e-15) << step;
  EXPECT_DOUBLE_EQ(rate_at(s, 20), 0.5);
  EXPECT_DOUBLE_EQ(rate_at(s, 60), 0.3);
}

TEST(Schedule, Polynomial) {
  const auto line = read("learning_rate = 0.5\nschedule = \"polynomial\"");
  const auto square = read(
      "learning_rate = 0.5\nschedule = \"polynomial\"\npower = 2\nminimum_learning_rate = 0.1\nwarmup = \"2 epochs\"");
  for (int64_t step = 20; step < kTotal; ++step) {
    EXPECT_DOUBLE_EQ(rate_at(line, step), 0.5 * (1 - double(step) / 100));
    const double left = 1 - double(step - 20) / 80;
    EXPECT_DOUBLE_EQ(rate_at(square, step), 0.1 + 0.4 * left * left);
  }
}

TEST(Schedule, WarmUpLeadsIntoEveryKind) {
  for (const char* schedule :
       {"schedule = \"constant\"", "schedule = \"step\"\ndecay_every = \"3 epochs\"",
        "schedule = \"multistep\"\ndecay_at = \"3 epochs\"", "schedule = \"cosine\"", "schedule = \"polynomial\""}) {
    const auto s = read(std::string(schedule) + "\nlearning_rate = 0.4\nwarmup = \"0.8 epochs\"");
    for (int64_t step = 0; step < 8; ++step) EXPECT_DOUBLE_EQ(rate_at(s, step), 0.05 * double(step + 1)) << schedule;
    EXPECT_DOUBLE_EQ(rate_at(s, 8), 0.4) << schedule;
  }
}

/// Goyal et al. 2017: with k times the batch the rate is k times as large at every step.
TEST(Schedule, ScalesWithTheBatch) {
  for (const char* schedule : {"", "\nschedule = \"cosine\"\nminimum_learning_rate = 0.02\nwarmup = \"1 epochs\""}) {
    const std::string text = std::string("learning_rate = 0.1") + schedule;
    const auto plain = read(text), scaled = read(text + "\nreference_batch = 256");
    for (int64_t step : {0, 5, 10, 50, 99})
      for (int64_t batch : {64, 256, 8192})
        EXPECT_DOUBLE_EQ(rate_at(scaled, step, batch), rate_at(plain, step) * double(batch) / 256);
  }
  Experiment e;
  e.batch = 512;
  e.optimizer.learning_rate = 0.1;
  e.schedule.reference_batch = 256;
  EXPECT_DOUBLE_EQ(learning_rate_at(e, 3, 10, 5), 0.2);
}

TEST(Schedule, Refused) {
  refuse({"schedule", "cosin", "did you mean \"cosine\""}, "schedule = \"cosin\"");
  refuse({"decay_every", "missing"}, "schedule = \"step\"");
  refuse({"decay_at", "multistep", "when to decay", "30 epochs"}, "schedule = \"multistep\"");
  refuse({"file.toml:2", "decay_at", "3 parsecs"}, "schedule = \"multistep\"\ndecay_at = [\"3 parsecs\"]");
  refuse({"decay_every", "schedule \"polynomial\" does not take it, step does", "minimum_learning_rate, power"},
         "schedule = \"polynomial\"\ndecay_every = \"1 epochs\"");
}

TEST(Kinds, Defaults) {
  const OptimizerConfig sgd = read("").optimizer;
  EXPECT_EQ(sgd.kind, &kSgd);
  EXPECT_EQ(sgd.momentum, 0.9);
  EXPECT_EQ(sgd.ema, 0);
  const OptimizerConfig adagrad = read("kind = \"adagrad\"").optimizer;
  EXPECT_EQ(adagrad.learning_rate, 0.01);
  EXPECT_EQ(adagrad.epsilon, 1e-10);
  const OptimizerConfig rmsprop = read("kind = \"rmsprop\"").optimizer;
  EXPECT_EQ(rmsprop.alpha, 0.99);
  EXPECT_EQ(rmsprop.momentum, 0);
  EXPECT_FALSE(rmsprop.centered);
  const OptimizerConfig lars = read("kind = \"lars\"").optimizer;
  EXPECT_EQ(lars.momentum, 0.9);
  EXPECT_EQ(lars.trust, 1e-3);
  EXPECT_EQ(read("kind = \"lamb\"").optimizer.epsilon, 1e-6);
}

TEST(Kinds, TheirKeys) {
  const auto s = read(
      "kind = \"rmsprop\"\nlearning_rate = 0.2\nalpha = 0.8\ncentered = true\nmomentum = 0.7\nepsilon = 1e-4\n"
      "weight_decay = 0.01\nclip_norm = 2\nema = 0.99");
  EXPECT_EQ(s.optimizer.kind, &kRmsprop);
  EXPECT_EQ(s.optimizer.learning_rate, 0.2);
  EXPECT_EQ(s.optimizer.alpha, 0.8);
  EXPECT_TRUE(s.optimizer.centered);
  EXPECT_EQ(s.optimizer.momentum, 0.7);
  EXPECT_EQ(s.optimizer.epsilon, 1e-4);
  EXPECT_EQ(s.optimizer.weight_decay, 0.01);
  EXPECT_EQ(s.optimizer.ema, 0.99);
  EXPECT_EQ(s.clip_norm, 2);
  const OptimizerConfig adagrad = read("kind = \"adagrad\"\nrate_decay = 0.1\ninitial_accumulator = 0.2").optimizer;
  EXPECT_EQ(adagrad.rate_decay, 0.1);
  EXPECT_EQ(adagrad.initial_accumulator, 0.2);
  EXPECT_EQ(read("kind = \"lars\"\ntrust = 0.02").optimizer.trust, 0.02);
  EXPECT_EQ(read("kind = \"lamb\"\nbeta2 = 0.95").optimizer.beta2, 0.95);
}

TEST(Kinds, KeysOfOthersAreRefused) {
  refuse({"file.toml:2", "momentum", "0.9", "adam does not take it, sgd, rmsprop, lars do", "beta1, beta2, epsilon"},
         "kind = \"adam\"\nmomentum = 0.9");
  refuse({"trust", "sgd does not take it, lars does", "momentum, nesterov"}, "trust = 0.1");
  refuse({"nesterov", "lars does not take it"}, "kind = \"lars\"\nnesterov = true");
  refuse({"epsilon", "lars does not take it"}, "kind = \"lars\"\nepsilon = 1e-9");
  refuse({"beta1", "adagrad does not take it"}, "kind = \"adagrad\"\nbeta1 = 0.9");
  refuse({"alpha", "lamb does not take it"}, "kind = \"lamb\"\nalpha = 0.9");
  refuse({"rate_decay", "rmsprop does not take it"}, "kind = \"rmsprop\"\nrate_decay = 0.1");
  refuse({"centred"}, "kind = \"rmsprop\"\ncentred = true");
}

TEST(Kinds, ValuesOutOfRange) {
  refuse({"ema", "below 1"}, "ema = 1.0");
  refuse({"ema", "at least 0"}, "ema = -0.1");
  refuse({"alpha", "below 1"}, "kind = \"rmsprop\"\nalpha = 1.5");
  refuse({"weight_decay", "finite"}, "weight_decay = inf");
  refuse({"learning_rate", "must be a number"}, "learning_rate = nan");
  refuse({"minimum_learning_rate", "above learning_rate"},
         "schedule = \"cosine\"\nlearning_rate = 0.1\nminimum_learning_rate = 0.2");
  refuse({"reference_batch", "at least 0"}, "reference_batch = -1");
}

TEST(Steps, OfALength) {
  EXPECT_EQ(steps_of({2, Length::Unit::epochs}, 7), 14);
  EXPECT_EQ(steps_of({0.25, Length::Unit::epochs}, 10), 3);   // rounded
  EXPECT_EQ(steps_of({0.001, Length::Unit::epochs}, 10), 1);  // at least one
  EXPECT_EQ(steps_of({5, Length::Unit::steps}, 7), 5);
  EXPECT_GT(steps_of({1e300, Length::Unit::steps}, 7), int64_t{1} << 60);  // practically never; must not become 1
  EXPECT_GT(steps_of({1e18, Length::Unit::epochs}, 1000), int64_t{1} << 60);
}

TEST(LearningRate, Constant) {
  Experiment e;
  e.optimizer.learning_rate = 0.4;
  for (int64_t step : {0, 5, 99}) EXPECT_DOUBLE_EQ(learning_rate_at(e, step, 100, 10), 0.4);
}

TEST(LearningRate, WarmsUpThenFollowsTheCosine) {
  Experiment e;
  e.optimizer.learning_rate = 0.4;
  e.schedule.kind = LearningRateSchedule::Kind::cosine;
  e.schedule.warmup = {0.4, Length::Unit::epochs};  // 4 of 10 steps
  const double expected[] = {0.1, 0.2, 0.3, 0.4};
  for (int64_t step = 0; step < 4; ++step) EXPECT_DOUBLE_EQ(learning_rate_at(e, step, 104, 10), expected[step]);
  EXPECT_DOUBLE_EQ(learning_rate_at(e, 4, 104, 10), 0.4);
  EXPECT_DOUBLE_EQ(learning_rate_at(e, 54, 104, 10), 0.2);
  EXPECT_NEAR(learning_rate_at(e, 29, 104, 10), 0.2 * (1 + std::cos(std::numbers::pi / 4)), 1e-15);
  EXPECT_GT(learning_rate_at(e, 103, 104, 10), 0);
  EXPECT_LT(learning_rate_at(e, 103, 104, 10), 0.001);
}

TEST(LearningRate, WarmUpAlone) {
  Experiment e;
  e.optimizer.learning_rate = 1;
  e.schedule.warmup = {10, Length::Unit::steps};
  EXPECT_DOUBLE_EQ(learning_rate_at(e, 0, 20, 5), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate_at(e, 9, 20, 5), 1);
  EXPECT_DOUBLE_EQ(learning_rate_at(e, 15, 20, 5), 1);
}

}  // namespace
}  // namespace trireme
