#include "train/measure_step.h"

#include <chrono>

#include "base/seconds.h"
#include "experiment/make_plan.h"
#include "metrics/result.h"
#include "process_ranks.h"
#include "tiny_training.h"
#include "train/follower_rank.h"
#include "train/trainer.h"

namespace trireme::test_support {
namespace {

class MeasureStep : public TinyTraining {};

TEST_F(MeasureStep, IsTheTimeOfAStepWithoutEvaluation) {
  constexpr double kPause = 0.02;
  train_set->pause = std::chrono::milliseconds(20);
  experiment.evaluate_every = {1, Length::Unit::steps};
  experiment.time_limit = 1e-3;  // of the user's run, not of the trial
  const Model model = build_model(experiment, data);
  const Plan plan = make_plan("single", experiment, model, 1);
  const double begin = steady_seconds();
  const TrialStep step = measure_step(experiment, model, data, plan, 0.1, interrupted);
  EXPECT_LT(steady_seconds() - begin, 10);  // it ended, although the run has a million steps
  ASSERT_EQ(step.why_not, "");
  EXPECT_GE(step.seconds, kPause);
}

TEST_F(MeasureStep, HasNoResultIfTheUserInterrupts) {
  const Model model = build_model(experiment, data);
  interrupted = true;
  EXPECT_EQ(measure_step(experiment, model, data, make_plan("single", experiment, model, 1), 0.1, interrupted).why_not,
            kStoppedByUser);
}

/// Trials leave nothing behind: the run after them has the loss of the same run in threads. Steps that take longer than
/// an interrupt would allow end like others.
TEST_F(MeasureStep, OfProcesses) {
  experiment.private_replicas = true;
  experiment.length = {8, Length::Unit::steps};
  const Model model = build_model(experiment, data);
  const Plan data_parallel = make_plan("data", experiment, model, 2),
             pipeline = make_plan("1f1b", experiment, model, 2);
  TrainObserver ignoring;
  const RunResult in_threads = train(experiment, model, data, pipeline, ignoring, interrupted);

  train_set->pause = std::chrono::milliseconds(600);
  RunResult row;
  TrialStep slow, fast;
  const std::vector<std::string> errors = as_ranks(2, [&](const std::shared_ptr<ProcessRank>& process) {
    if (process->rank() == 0) {
      slow = measure_step(experiment, model, data, data_parallel, 0.1, interrupted, process);
      train_set->pause = std::chrono::milliseconds(0);
      fast = measure_step(experiment, model, data, pipeline, 0.1, interrupted, process);
      row = train(experiment, model, data, pipeline, ignoring, interrupted, nullptr, {}, process);
      return;
    }
    for (const Plan* plan : {&data_parallel, &pipeline})
      run_follower_rank(as_trial(experiment), model, data, *plan, process, interrupted);
    run_follower_rank(experiment, model, data, pipeline, process, interrupted);
  });
  EXPECT_EQ(errors, (std::vector<std::string>{"", ""}));
  ASSERT_TRUE(slow.ran() && fast.ran());
  EXPECT_GE(slow.seconds, 0.6);
  EXPECT_LT(fast.seconds, slow.seconds);
  ASSERT_EQ(row.status, RunStatus::ok) << row.reason;
  ASSERT_EQ(row.curve.size(), in_threads.curve.size());
  for (size_t step = 0; step < row.curve.size(); ++step)
    EXPECT_EQ(row.curve[step].loss, in_threads.curve[step].loss) << step;
}

}  // namespace
}  // namespace trireme::test_support
