// Experiment files: what they may say, and how mistakes are answered; learning-rate schedules.
#include "train/experiment.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <numbers>

#include "../base/expect_error.h"

namespace trireme {
namespace {

class ExperimentFile : public ::testing::Test {
 protected:
  ExperimentFile() : file_(std::filesystem::temp_directory_path() / "trireme_experiment_test.toml") {}
  ~ExperimentFile() override { std::filesystem::remove(file_); }

  Experiment read(const std::string& top, const std::string& optimizer = "", const ExperimentOverrides& overrides = {}) {
    std::ofstream(file_) << top << "\n[model]\nname = \"mlp\"\n[model.options]\nhidden = 8\n[data]\nname = \"digits\"\n[optimizer]\n" << optimizer << "\n";
    return read_experiment(file_, overrides);
  }
  void refuse(const std::vector<std::string>& parts, const std::string& top, const std::string& optimizer = "",
              const ExperimentOverrides& overrides = {}) {
    expect_error(Blame::user, parts, [&] { read(top, optimizer, overrides); });
  }
  std::filesystem::path file_;
};

TEST_F(ExperimentFile, Everything) {
  const Experiment e = read(R"(
name = "all"
seed = 7
batch = 64
length = "3 epochs"
evaluate_every = "50 steps"
target_accuracy = 0.98
precision = "bf16"
batch_norm = "global"
strategies = ["single", "hybrid"]
devices = [2, 4]
time_limit = "2 min"
device_memory = "2 GiB"
micro_batches = 6)", R"(kind = "adamw"
learning_rate = 0.002
beta1 = 0.8
beta2 = 0.99
epsilon = 1e-6
weight_decay = 0.1
clip_norm = 1.5
schedule = "cosine"
warmup = "0.5 epochs")");
  EXPECT_EQ(e.name, "all");
  EXPECT_EQ(e.seed, 7u);
  EXPECT_EQ(e.batch, 64);
  EXPECT_EQ(e.length.count, 3);
  EXPECT_EQ(e.evaluate_every.unit, Length::Unit::steps);
  EXPECT_EQ(e.target_accuracy, 0.98);
  EXPECT_EQ(e.precision, Precision::bf16);
  EXPECT_EQ(e.batch_norm, BatchNormScope::global);
  EXPECT_EQ(e.strategies, (std::vector<std::string>{"single", "hybrid"}));
  EXPECT_EQ(e.devices, (std::vector<int>{2, 4}));
  EXPECT_EQ(e.time_limit, 120);
  EXPECT_EQ(e.device_memory, int64_t{2} << 30);
  EXPECT_EQ(e.micro_batches, 6);
  EXPECT_EQ(e.model_name, "mlp");
  EXPECT_EQ(e.model_options.at("hidden"), 8);
  EXPECT_EQ(e.data.name, "digits");
  EXPECT_EQ(e.data.seed, 7u);
  EXPECT_EQ(e.optimizer.kind, OptimizerConfig::Kind::adamw);
  EXPECT_EQ(e.optimizer.beta1, 0.8);
  EXPECT_EQ(e.optimizer.weight_decay, 0.1);
  EXPECT_EQ(e.clip_norm, 1.5);
  EXPECT_EQ(e.schedule.kind, LearningRateSchedule::Kind::cosine);
  EXPECT_EQ(e.schedule.warmup.count, 0.5);
}

TEST_F(ExperimentFile, Defaults) {
  const Experiment e = read("");
  EXPECT_EQ(e.name, "trireme_experiment_test");
  EXPECT_EQ(e.batch, 128);
  EXPECT_EQ(e.precision, Precision::fp32);
  EXPECT_FALSE(e.target_accuracy);
  EXPECT_EQ(e.threads, 1);
  EXPECT_TRUE(e.device_threads.empty());
  EXPECT_TRUE(e.device_speeds.empty() && e.frozen.empty());
  EXPECT_FALSE(e.private_replicas);
  EXPECT_EQ(cluster_of(e, 2).devices[0].speed, 1);
  EXPECT_EQ(e.optimizer.kind, OptimizerConfig::Kind::sgd);
  EXPECT_EQ(e.clip_norm, 0);
}

TEST_F(ExperimentFile, DevicesAndReplicas) {
  const Experiment e = read("devices = [2, 3]\ndevice_threads = [2, 1, 4]\ndevice_speeds = [1.0, 0.5, 2]\nreplicas = \"private\"\n"
                            "frozen = [\"fc1.weight\", \"fc2.*\"]\nbatch_norm = \"deferred\"\ndevice_memory = \"1 MiB\"");
  EXPECT_EQ(e.device_threads, (std::vector<int>{2, 1, 4}));
  EXPECT_EQ(e.device_speeds, (std::vector<double>{1, 0.5, 2}));
  EXPECT_TRUE(e.private_replicas);
  EXPECT_EQ(e.frozen, (std::vector<std::string>{"fc1.weight", "fc2.*"}));
  EXPECT_EQ(e.batch_norm, BatchNormScope::deferred);
  const Cluster two = cluster_of(e, 2);
  ASSERT_EQ(two.size(), 2);
  EXPECT_EQ(two.devices[0].speed, 1);
  EXPECT_EQ(two.devices[1].speed, 0.5);
  EXPECT_EQ(two.devices[1].memory, 1 << 20);
  EXPECT_EQ(threads_of(e, 3), (std::vector<int>{2, 1, 4}));
  expect_error(Blame::user, {file_.string(), "device_threads lists 3 of 4 devices"}, [&] { cluster_of(e, 4); });
  const CompileOptions options = compile_options(e, true);
  EXPECT_TRUE(options.training && options.private_replicas);
  EXPECT_EQ(options.frozen, e.frozen);
  EXPECT_EQ(options.batch_norm, BatchNormScope::deferred);
  EXPECT_FALSE(options.clip_gradients || options.mixed_precision || compile_options(e, false).training);
}

TEST_F(ExperimentFile, SpeedsFollowThreads) {
  Experiment e = read("device_threads = [2, 1]");
  EXPECT_EQ(cluster_of(e, 2).devices[0].speed, 2);
  EXPECT_EQ(cluster_of(e, 2).devices[1].speed, 1);
  EXPECT_EQ(cluster_of(e, 1).size(), 1);
  e = read("device_threads = [2]");  // a list is one number per worker, however short
  expect_error(Blame::user, {file_.string(), "device_threads lists 1 of 2 devices"}, [&] { threads_of(e, 2); });
  e = read("device_threads = 3");
  EXPECT_EQ(threads_of(e, 2), (std::vector<int>{3, 3}));
  EXPECT_EQ(cluster_of(e, 2).devices[0].speed, cluster_of(e, 2).devices[1].speed);
  e = read("device_speeds = [1, 2]");
  EXPECT_EQ(threads_of(e, 3), (std::vector<int>{1, 1, 1}));
  expect_error(Blame::user, {file_.string(), "device_speeds lists 2 of 3 devices", "fewer devices"}, [&] { cluster_of(e, 3); });
}

TEST_F(ExperimentFile, TextNeedsALanguageModel) {
  std::ofstream(file_) << "[model]\nname = \"lstm-lm\"\n[data]\nname = \"generated-text\"\nsequence = 20\n[optimizer]\n";
  EXPECT_EQ(read_experiment(file_, {}).data.sequence, 20);
  ExperimentOverrides o;
  o.set = {"model.name=mlp"};
  expect_error(Blame::user, {"model.name", "data set generated-text holds text", "language model"}, [&] { read_experiment(file_, o); });
  o.set = {"data.name=digits"};
  expect_error(Blame::user, {"sequence", "digits is no text"}, [&] { read_experiment(file_, o); });
  o.set = {"data.name=digits", "data.sequence=0"};
  expect_error(Blame::user, {"model.name", "data set digits holds no text"}, [&] { read_experiment(file_, o); });
}

TEST_F(ExperimentFile, Refused) {
  refuse({file_.string(), "bacth"}, "bacth = 3");
  refuse({"trireme_experiment_test.toml:2", "precision", "fp16", "fp32"}, "seed = 1\nprecision = \"fp16\"");
  refuse({"batch", "0", "at least 1"}, "batch = 0");
  refuse({"batch", "many"}, "batch = \"many\"");
  refuse({"seed", "at least 0"}, "seed = -1");
  refuse({"length", "3 parsecs", "epochs"}, "length = \"3 parsecs\"");
  refuse({"length", "more than zero"}, "length = \"0 epochs\"");
  refuse({"evaluate_every", "more than zero"}, "evaluate_every = \"0 steps\"");
  refuse({"time_limit", "2 parsecs"}, "time_limit = \"2 parsecs\"");
  refuse({"device_memory", "2 Gigs", "GiB"}, "device_memory = \"2 Gigs\"");
  refuse({"target_accuracy", "between 0 and 1", "0.98"}, "target_accuracy = 98");
  refuse({"devices", "0"}, "devices = [0]");
  refuse({"devices", "1000"}, "devices = [1000]");
  refuse({"batch_norm", "everywhere", "global"}, "batch_norm = \"everywhere\"");
  refuse({"device_threads", "0 threads", "1 to 1024"}, "device_threads = 0");
  refuse({"device_threads", "2000 threads"}, "device_threads = [1, 2000]");
  refuse({"device_threads", "whole numbers"}, "device_threads = [1, \"x\"]");
  refuse({"device_threads", "no number of threads"}, "device_threads = []");
  refuse({"device_speeds", "must be positive"}, "device_speeds = [1, 0]");
  refuse({"replicas", "privat", "did you mean", "private"}, "replicas = \"privat\"");
  refuse({"frozen", "name is empty"}, "frozen = [\"\"]");
  refuse({"frozen", "\"*x\"", "at the end only", "layer1.*"}, "frozen = [\"*x\"]");
  refuse({"batch_norm", "defered", "deferred"}, "batch_norm = \"defered\"");
  refuse({"micro_batches", "at least 0"}, "micro_batches = -1");
  refuse({"kind", "lamb", "adamw"}, "", "kind = \"lamb\"");
  refuse({"nesterov", "needs momentum"}, "", "nesterov = true\nmomentum = 0");
  refuse({"learning_rate", "at least 0"}, "", "learning_rate = -1");
  refuse({"beta1"}, "", "beta1 = 0.9");  // not an option of SGD
  refuse({"momentum"}, "", "kind = \"adam\"\nmomentum = 0.9");
  refuse({"beta1", "below 1"}, "", "kind = \"adam\"\nbeta1 = 1.0");
  refuse({"beta2", "below 1"}, "", "kind = \"adam\"\nbeta2 = 1.5");
  refuse({"schedule", "stairs", "cosine"}, "", "schedule = \"stairs\"");
}

TEST_F(ExperimentFile, WhatIsMissing) {
  std::ofstream(file_) << "[data]\nname = \"digits\"\n";
  expect_error(Blame::user, {file_.string(), "model.name"}, [&] { read_experiment(file_, {}); });
  std::filesystem::remove(file_);
  expect_error(Blame::user, {file_.string()}, [&] { read_experiment(file_, {}); });
}

TEST_F(ExperimentFile, Overrides) {
  ExperimentOverrides o;
  o.set = {"batch=32", "optimizer.learning_rate=0.5", "precision=bf16", "model.options.depth=3"};
  o.seed = 9;
  o.steps = 20;
  o.strategies = {"tensor"};
  o.devices = {3};
  o.data_dir = "/somewhere";
  const Experiment e = read("batch = 64\nseed = 1\nlength = \"2 epochs\"", "", o);
  EXPECT_EQ(e.batch, 32);
  EXPECT_EQ(e.optimizer.learning_rate, 0.5);
  EXPECT_EQ(e.precision, Precision::bf16);
  EXPECT_EQ(e.model_options.at("depth"), 3);
  EXPECT_EQ(e.seed, 9u);
  EXPECT_EQ(e.data.seed, 9u);
  EXPECT_EQ(e.length.unit, Length::Unit::steps);
  EXPECT_EQ(e.length.count, 20);
  EXPECT_EQ(e.strategies, std::vector<std::string>{"tensor"});
  EXPECT_EQ(e.devices, std::vector<int>{3});
  EXPECT_EQ(e.data.data_dir, "/somewhere");
  o = {};
  o.set = {"bacth=3"};
  refuse({"--set bacth=3", "bacth"}, "", "", o);
  o.set = {"batch=0"};
  refuse({"--set batch=0", "at least 1"}, "", "", o);
}

TEST(Steps, OfALength) {
  EXPECT_EQ(steps_of({2, Length::Unit::epochs}, 7), 14);
  EXPECT_EQ(steps_of({0.25, Length::Unit::epochs}, 10), 3);   // rounded
  EXPECT_EQ(steps_of({0.001, Length::Unit::epochs}, 10), 1);  // at least one
  EXPECT_EQ(steps_of({5, Length::Unit::steps}, 7), 5);
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
