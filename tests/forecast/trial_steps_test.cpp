// Predictions count what trial steps take beyond the model's layers.
#include "forecast/trial_steps.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "../train/memory_data.h"
#include "base/devices/at_core_speed.h"
#include "base/machine.h"
#include "base/units.h"
#include "forecast/predict.h"
#include "forecast/predictions.h"

namespace trireme::test_support {
namespace {

class TrialStepsTest : public ::testing::Test {
 protected:
  TrialStepsTest() {
    experiment.file = "tiny.toml";
    experiment.batch = 64;
    experiment.model_name = "mlp";
    experiment.model_options = {{"hidden", 256}, {"depth", 4}};
    data.train = data.test = std::make_shared<MemoryDataset>(256, 1);
    model = build_model(experiment, data);
  }

  /// Links are measured once.
  static void SetUpTestSuite() {
    RunSpec links;
    links.file = "links.toml";
    links.model_name = "mlp";
    TaskData few;
    few.train = few.test = std::make_shared<MemoryDataset>(256, 1);
    const Model small = build_model(links, few);
    Predictions predictions(links, small, few, {.cluster = {}, .profile = profile(), .times = {}});
    predictions.source(1);
    predictions.keep();
  }
  static void TearDownTestSuite() { std::filesystem::remove(profile()); }
  static std::filesystem::path profile() {
    return std::filesystem::temp_directory_path() / "trireme_trial_steps_test.profile.json";
  }
  const CostSourceOptions known{.cluster = {}, .profile = profile(), .times = {}};

  double seconds(Predictions& predictions, const char* strategy, int devices) {
    const Plan plan = predictions.plan(strategy, devices);
    return predict(experiment, *model, plan, predictions.source(plan), {.timeline = false}).predicted->step_seconds;
  }

  TaskData data;
  RunSpec experiment;
  std::optional<Model> model;
  const bool has_two_cores = inspect_machine(false).cores >= 2;
};

TEST_F(TrialStepsTest, PredictionsOfTheTriedPlansAgreeWithThem) {
  Predictions predictions(experiment, *model, data, known);
  predictions.settle([&] {
    seconds(predictions, "single", 1);
    seconds(predictions, "data", 2);
    seconds(predictions, "tensor", 2);
  });
  const double tensor = seconds(predictions, "tensor", 2);
  std::map<int, double> measured{{1, 1.5 * seconds(predictions, "single", 1)},
                                 {2, 2.5 * seconds(predictions, "data", 2)}};
  std::vector<int> tried;
  const std::string line = predictions.try_steps({1, 2}, [&](const Plan& plan) {
    tried.push_back(plan.devices);
    return TrialStep{measured.at(plan.devices)};
  });
  EXPECT_NEAR(seconds(predictions, "single", 1), measured[1], 0.02 * measured[1]);
  if (!has_two_cores) {
    EXPECT_EQ(tried.front(), 1);
    return;
  }
  EXPECT_EQ(tried, (std::vector<int>{1, 2, 1, 2, 1, 2}));
  EXPECT_NEAR(seconds(predictions, "data", 2), measured[2], 0.02 * measured[2]);
  EXPECT_GT(seconds(predictions, "tensor", 2), 1.2 * tensor);  // other plans are slower too
  EXPECT_NE(line.find("1.50 (one device)"), std::string::npos) << line;
}

/// The machine was half as fast during one trial as during another.
TEST_F(TrialStepsTest, TrialsCountAtTheSpeedOfTheCoresInTheProfile) {
  Predictions predictions(experiment, *model, data, known);
  predictions.settle([&] { seconds(predictions, "single", 1); });
  const double measured = 1.5 * seconds(predictions, "single", 1);
  ASSERT_TRUE(predictions.core_seconds());
  const double core = *predictions.core_seconds();
  int trial = 0;
  predictions.try_steps({1}, [&](const Plan&) {
    const double slowness = ++trial == 1 ? 1 : 2;
    return TrialStep{at_core_speed(measured, 1, slowness), slowness * core};
  });
  EXPECT_NEAR(seconds(predictions, "single", 1), measured, 0.02 * measured);
}

/// Other programs made some of the trials longer: there are more trials, their median counts, and the line says so.
TEST_F(TrialStepsTest, TrialsThatScatterAreRepeatedAndNamed) {
  Predictions predictions(experiment, *model, data, known);
  predictions.settle([&] { seconds(predictions, "single", 1); });
  const double measured = 1.5 * seconds(predictions, "single", 1);
  const std::vector<double> times{2 * measured, 3 * measured, measured, measured, measured, measured};
  size_t trial = 0;
  const std::string line = predictions.try_steps({1}, [&](const Plan&) { return TrialStep{times.at(trial++)}; });
  EXPECT_EQ(trial, times.size());
  EXPECT_NEAR(seconds(predictions, "single", 1), measured, 0.02 * measured);
  EXPECT_NE(line.find(fmt::format("trial steps took {} to {} (one device), so other programs used this machine",
                                  format_seconds(measured), format_seconds(3 * measured))),
            std::string::npos)
      << line;
}

/// Where samples load slowly most of a step is no computation; factors on the rest are found all the same.
TEST_F(TrialStepsTest, FactorsAreFoundWhereLoadingTakesMostOfAStep) {
  if (!has_two_cores) GTEST_SKIP() << "a machine of one core";
  const auto slow = std::make_shared<MemoryDataset>(256, 1);
  slow->pause = std::chrono::milliseconds(4);
  data.train = data.test = slow;
  Predictions predictions(experiment, *model, data, known);
  predictions.settle([&] {
    seconds(predictions, "single", 1);
    seconds(predictions, "data", 2);
  });
  double measured = 0;
  predictions.try_steps({1, 2}, [&](const Plan& plan) {
    const double alone = seconds(predictions, "single", 1);
    if (plan.devices == 1) return TrialStep{alone};
    return TrialStep{measured = 1.5 * seconds(predictions, "data", 2)};
  });
  EXPECT_NEAR(seconds(predictions, "data", 2), measured, 0.003 * measured);
}

TEST_F(TrialStepsTest, MoreWorkersThanCoresHaveAFactorOfTheirOwn) {
  const int cores = inspect_machine(false).cores, workers = 2 * cores;
  if (workers > 16) GTEST_SKIP() << "a machine of many cores: the batch is too small for twice as many workers";
  Predictions predictions(experiment, *model, data, known);
  predictions.settle([&] {
    for (const int n : {1, cores, workers}) seconds(predictions, n == 1 ? "single" : "data", n);
  });
  double within = 0, measured = 0;
  predictions.try_steps({workers}, [&](const Plan& plan) {
    const double predicted = seconds(predictions, plan.devices == 1 ? "single" : "data", plan.devices);
    if (plan.devices == cores) within = predicted;
    if (plan.devices == workers) return TrialStep{measured = 1.5 * predicted};
    return TrialStep{predicted};
  });
  EXPECT_NEAR(seconds(predictions, "data", workers), measured, 0.02 * measured);
  EXPECT_NEAR(seconds(predictions, "data", cores), within, 0.02 * within);
}

/// With more replicas than cores each gets its share of them, as workers of one plan do.
TEST_F(TrialStepsTest, ReplicasShareCores) {
  const int cores = inspect_machine(false).cores, most = 2 * cores;
  if (most > 16) GTEST_SKIP() << "a machine of many cores: the batch is too small for twice as many replicas";
  experiment.length = {100, Length::Unit::steps};
  experiment.batch = int64_t{16} * most;
  Predictions predictions(experiment, *model, data, known);
  const auto step = [&](int replicas) {
    const Plan plan = predictions.plan("local-sgd,every=100 steps", replicas);
    CostSource source = predictions.source(plan);
    RunSpec alike = experiment;  // 16 samples for each replica
    alike.batch = int64_t{16} * replicas;
    return predict(alike, *model, plan, source, without_pictures()).predicted->step_seconds;
  };
  predictions.settle([&] { step(cores), step(most); });
  EXPECT_GT(step(most), 1.8 * step(cores));
  EXPECT_LT(step(most), 3 * step(cores));
}

TEST_F(TrialStepsTest, WhatCannotBeTriedIsNamedAndCountsNothing) {
  Predictions predictions(experiment, *model, data, known);
  predictions.settle([&] { seconds(predictions, "single", 1); });
  const double before = seconds(predictions, "single", 1);
  EXPECT_EQ(predictions.try_steps({1}, [](const Plan&) { return TrialStep{.why_not = "a rank is gone"}; }),
            "not tried: one device could not run (a rank is gone)");
  EXPECT_EQ(seconds(predictions, "single", 1), before);
}

TEST_F(TrialStepsTest, PlansThatDoNotFitAreNotTried) {
  experiment.device_memory = 1000;
  Predictions predictions(experiment, *model, data, known);
  bool asked = false;
  const std::string line = predictions.try_steps({1}, [&](const Plan&) {
    asked = true;
    return TrialStep{1.0};
  });
  EXPECT_FALSE(asked);
  EXPECT_EQ(line, "not tried: one device needs more memory than there is");
}

/// Between processes only plans for all of them are tried. A slow network between their machines makes a step longer.
TEST_F(TrialStepsTest, FinalTrialsOfProcesses) {
  if (!has_two_cores) GTEST_SKIP() << "a machine of one core";
  experiment.processes = experiment.private_replicas = true;
  const auto seconds_of_data = [&](double bandwidth) {
    experiment.process_machines = std::make_shared<const ProcessMachines>(
        ProcessMachines{.of_rank = {0, 1}, .cores = {1, 1}, .network = {.bandwidth = bandwidth, .latency = 1e-4}});
    Predictions predictions(experiment, *model, data, known);
    return seconds(predictions, "data", 2);
  };
  const double slow = seconds_of_data(1e6), fast = seconds_of_data(1e9);
  const double bytes = 4.0 * double(model->parameter_count());
  EXPECT_NEAR(slow - fast, bytes / 1e6, 0.3 * bytes / 1e6) << "an all-reduce of two sends all weights once";

  // Its cores also do the work of messages, if they compute meanwhile: both workers share one core here.
  const auto seconds_of_work = [&](double of_message) {
    experiment.process_machines = std::make_shared<const ProcessMachines>(
        ProcessMachines{.of_rank = {0, 0},
                        .cores = {1},
                        .within = {.bandwidth = 1e12, .latency = 0},
                        .work_within = {.of_message = of_message, .of_byte = 0}});
    Predictions predictions(experiment, *model, data, known);
    return seconds(predictions, "data", 2);
  };
  EXPECT_GT(seconds_of_work(0.01), seconds_of_work(0) + 0.02) << "at least two messages of each worker";

  experiment.process_machines = std::make_shared<const ProcessMachines>(
      ProcessMachines{.of_rank = {0, 1}, .cores = {1, 1}, .network = {.bandwidth = 1e9, .latency = 1e-4}});
  Predictions predictions(experiment, *model, data, known);
  bool tried = false;
  ASSERT_TRUE(predictions.use_final_trials([&](const Plan& plan) {
    EXPECT_EQ(plan.devices, 2);
    tried = true;
    return TrialStep{0.01};
  }));
  EXPECT_EQ(predictions.plan("exact", 2).devices, 2);
  EXPECT_TRUE(tried);
}

TEST_F(TrialStepsTest, FinalTrialsChooseTheExactPlanWhereItCanBeTried) {
  if (!has_two_cores) GTEST_SKIP() << "a machine of one core";
  Predictions predictions(experiment, *model, data, known);
  std::set<int> tried;  // numbers of devices; layers are measured, so which plans are tried differs from run to run
  const auto single_is_fastest = [&](const Plan& plan) {
    tried.insert(plan.devices);
    return TrialStep{plan.devices == 1 ? 0.01 : 0.02};
  };
  ASSERT_TRUE(predictions.use_final_trials(single_is_fastest));
  const Plan chosen = predictions.plan("exact", 2);
  EXPECT_EQ(chosen.name, "exact");
  if (tried.contains(1)) {
    EXPECT_EQ(chosen.devices, 1);
  }
  EXPECT_EQ(predictions.final_trials()->take_line(*model).empty(), tried.empty());

  experiment.batch = 1000;
  EXPECT_FALSE(predictions.use_final_trials(single_is_fastest)) << "the data are less than a batch";
  experiment.batch = 64;
  Predictions described(experiment, *model, data, Cluster::uniform(2));
  EXPECT_FALSE(described.use_final_trials(single_is_fastest));
  EXPECT_EQ(described.final_trials(), nullptr);
}

TEST_F(TrialStepsTest, EmulatedMachinesAreLeftOut) {
  experiment.links.emplace();
  experiment.worker_changes.push_back({});
  experiment.memory_changes.push_back({});
  const RunSpec plain = without_emulation(experiment);
  EXPECT_FALSE(plain.links);
  EXPECT_TRUE(plain.worker_changes.empty());
  EXPECT_TRUE(plain.memory_changes.empty());
}

}  // namespace
}  // namespace trireme::test_support
