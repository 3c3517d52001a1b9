// Whole runs with every kind of optimizer, named in an experiment: each learns a tiny task, on one and on two workers.
#include <cmath>

#include <gtest/gtest.h>

#include "experiment/make_plan.h"
#include "experiment/read_optimizer.h"
#include "memory_data.h"
#include "train/trainer.h"

namespace trireme::test_support {
namespace {

class EveryOptimizer : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Training, EveryOptimizer,
                         ::testing::Values("learning_rate = 0.1", "learning_rate = 0.1\nnesterov = true\nema = 0.8",
                                           "kind = \"adam\"\nlearning_rate = 0.02",
                                           "kind = \"adamw\"\nlearning_rate = 0.02\nweight_decay = 0.1",
                                           "kind = \"adagrad\"\nlearning_rate = 0.1",
                                           "kind = \"rmsprop\"\ncentered = true",
                                           "kind = \"lars\"\nlearning_rate = 0.5\ntrust = 0.05\nweight_decay = 1e-4",
                                           "kind = \"lamb\"\nlearning_rate = 0.05\nweight_decay = 0.01\nema = 0.8"));

TEST_P(EveryOptimizer, Learns) {
  TaskData data;
  data.train = std::make_shared<MemoryDataset>(210, 1);
  data.test = std::make_shared<MemoryDataset>(90, 2);
  RunSpec experiment;
  experiment.file = "tiny.toml";
  experiment.batch = 20;
  experiment.length = {6, Length::Unit::epochs};
  experiment.model_name = "mlp";
  experiment.model_options = {{"hidden", 32}};
  experiment.precision = Precision::fp64;
  const std::string common =
      "\nschedule = \"cosine\"\nminimum_learning_rate = 1e-3\nwarmup = \"5 steps\"\nclip_norm = 5";
  const OptimizerSettings settings = read_optimizer(ConfigTable::from_string(GetParam() + common, "optimizer.toml"));
  experiment.optimizer = settings.optimizer;
  experiment.schedule = settings.schedule;
  experiment.clip_norm = settings.clip_norm;
  const Model model = build_model(experiment, data);
  const std::atomic<bool> interrupted{false};
  auto run = [&](const char* plan, int devices) {
    TrainObserver ignored;
    return train(experiment, model, data, make_plan(plan, experiment, model, devices), ignored, interrupted);
  };
  const RunResult one = run("single", 1), two = run("data", 2);
  for (const RunResult& result : {one, two}) {
    ASSERT_EQ(result.status, RunStatus::ok) << result.reason;
    EXPECT_GT(result.test->main()->value, 0.7);
  }
  ASSERT_EQ(one.evaluations.size(), two.evaluations.size());
  for (size_t k = 0; k < one.evaluations.size(); ++k)
    EXPECT_NEAR(two.evaluations[k].loss, one.evaluations[k].loss, 1e-8 * one.evaluations[k].loss);
}

TEST(CompileOptionsOf, LayerWiseOptimizers) {
  RunSpec experiment;
  for (const std::string& name : optimizer_names()) {
    experiment.optimizer.kind = parse_optimizer(name, "kind");
    EXPECT_EQ(compile_options(experiment, true).layer_norms, name == "lars" || name == "lamb");
  }
}

}  // namespace
}  // namespace trireme::test_support
