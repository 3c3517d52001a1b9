// Rows of which a comparison makes several runs.
#include "train/result/repeats.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

/// A run with 10 samples per step and 100 per epoch.
RunResult run_of(std::vector<double> steps) {
  RunResult run;
  run.step_seconds = step_seconds_of(steps);
  run.measured_steps = std::move(steps);
  run.samples_per_second = 10 / run.step_seconds->median;
  run.epoch_seconds = 100 / *run.samples_per_second;
  return run;
}

TEST(Repeats, TakeTheMedianOverAllSteps) {
  RunResult slow = run_of({4, 5, 6}), middle = run_of({2, 3, 4}), quick = run_of({1, 1, 1});
  middle.bytes_per_step = 77;
  const RunResult row = merged_repeats({slow, middle, quick});
  EXPECT_EQ(row.step_seconds->median, 3);
  EXPECT_EQ(row.measured_steps.size(), 9);
  EXPECT_LE(row.step_seconds->p10, 1.0);
  EXPECT_GE(row.step_seconds->p90, 5.0);
  EXPECT_DOUBLE_EQ(*row.samples_per_second, 10.0 / 3);
  EXPECT_DOUBLE_EQ(*row.epoch_seconds, 30);
  EXPECT_EQ(row.bytes_per_step, 77) << "of the run that is nearest";
  ASSERT_EQ(row.repeats.size(), 3);
  EXPECT_EQ(row.repeats[0].step_seconds.median, 5);
  EXPECT_EQ(row.repeats[2].epoch_seconds, 10);
}

TEST(Repeats, TakeTheMedianSpeedOfCoresAndMemory) {
  RunResult slow = run_of({4, 5, 6}), quick = run_of({1, 1, 1});
  slow.core_seconds = 3e-5;
  quick.core_seconds = 1e-5;
  EXPECT_DOUBLE_EQ(*merged_repeats({slow, quick}).core_seconds, 2e-5);
  EXPECT_DOUBLE_EQ(*merged_repeats({slow, quick, quick}).core_seconds, 1e-5) << "the median";
  slow.core_seconds.reset();
  EXPECT_FALSE(merged_repeats({slow, quick}).core_seconds) << "not known";
  slow.memory_speed = 1e10;
  quick.memory_speed = 3e10;
  EXPECT_DOUBLE_EQ(*merged_repeats({slow, quick}).memory_speed, 2e10);
}

TEST(Repeats, OfReplicasTakeTheMedianOfTheEpochs) {
  std::vector<RunResult> runs{run_of({1, 1, 1}), run_of({2, 2, 2}), run_of({3, 3, 3})};
  for (RunResult& run : runs) run.replicas = ReplicaReport{.replicas = 2};
  for (size_t i = 0; i < runs.size(); ++i) {
    runs[i].epoch_seconds = 50 - 10 * double(i);
    runs[i].samples_per_second = 100 / *runs[i].epoch_seconds;
  }
  const RunResult row = merged_repeats(runs);
  EXPECT_EQ(*row.epoch_seconds, 40);
  EXPECT_DOUBLE_EQ(*row.samples_per_second, 2.5);
}

TEST(Repeats, KeepTheWarningsOfAllRuns) {
  RunResult slow = run_of({4, 5, 6}), middle = run_of({2, 3, 4}), untimed;
  slow.warnings = {"2 workers share 1 core", "3 answers came late"};
  middle.warnings = {"2 workers share 1 core"};
  untimed.warnings = {"too short"};
  EXPECT_EQ(merged_repeats({middle, slow, run_of({1, 1, 1}), untimed}).warnings,
            (std::vector<std::string>{"2 workers share 1 core", "3 answers came late", "too short"}));
  EXPECT_EQ(merged_repeats({RunResult(), untimed}).warnings, untimed.warnings) << "no run was measured";
}

TEST(Repeats, ARunThatFailsFailsTheRow) {
  RunResult failed = run_of({1});
  failed.status = RunStatus::failed;
  failed.reason = "out of memory";
  EXPECT_EQ(merged_repeats({failed}).reason, "out of memory");
  const RunResult row = merged_repeats({run_of({1, 2}), failed});
  EXPECT_EQ(row.status, RunStatus::failed);
  EXPECT_EQ(row.reason, "run 2: out of memory");
}

TEST(Repeats, ARunThatTheUserStoppedIsLeftOut) {
  RunResult stopped = run_of({9, 9, 9});
  stopped.status = RunStatus::interrupted;
  const RunResult row = merged_repeats({run_of({1, 1, 1}), stopped});
  EXPECT_EQ(row.status, RunStatus::ok);
  EXPECT_EQ(row.step_seconds->median, 1);
  EXPECT_EQ(row.repeats.size(), 1);
  EXPECT_EQ(merged_repeats({stopped}).status, RunStatus::interrupted);
}

}  // namespace
}  // namespace trireme
