#include "train/measure_step.h"

#include <chrono>

#include "base/seconds.h"
#include "experiment/make_plan.h"
#include "tiny_training.h"

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
  const std::optional<TrialStep> step = measure_step(experiment, model, data, plan, 0.1, interrupted);
  EXPECT_LT(steady_seconds() - begin, 10);  // it ended, although the run has a million steps
  ASSERT_TRUE(step);
  EXPECT_GE(step->seconds, kPause);
}

TEST_F(MeasureStep, HasNoResultIfTheUserInterrupts) {
  const Model model = build_model(experiment, data);
  interrupted = true;
  EXPECT_FALSE(measure_step(experiment, model, data, make_plan("single", experiment, model, 1), 0.1, interrupted));
}

}  // namespace
}  // namespace trireme::test_support
