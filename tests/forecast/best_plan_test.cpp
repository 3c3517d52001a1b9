// Chooses, among the plans that a planner found, the one to train under.
#include "forecast/finalists.h"

#include <gtest/gtest.h>

#include "../train/tiny_training.h"
#include "plan/named.h"

namespace trireme::test_support {
namespace {

class BestPlans : public TinyTraining {
 protected:
  Finalist finalist(const std::string& name, int devices, double simulated, bool is_measured = true) {
    return {.rated = {.plan = named_plan(name, build_model(experiment, data), Cluster::uniform(devices),
                                         experiment.batch, {}, 4),
                      .prediction = {},
                      .objective = simulated},
            .simulated = simulated,
            .is_measured = is_measured};
  }
  static std::string chosen(const std::vector<Finalist>& finalists, int devices = 0) {
    const Finalist* const found = to_run(finalists, devices);
    if (!found) return "none";
    const Plan& plan = found->rated.plan;
    return plan.name + " " + std::to_string(plan.devices);
  }
};

TEST_F(BestPlans, OfEquallyFastPlansTheSimplest) {
  const Finalist pipeline = finalist("pipeline", 2, 1), zero1 = finalist("zero1", 2, 1.05),
                 slow_tensor = finalist("tensor", 2, 1.19);
  EXPECT_EQ(chosen({pipeline, zero1}), "zero1 2");
  EXPECT_EQ(chosen({pipeline, zero1, finalist("data", 2, 1.1), slow_tensor, finalist("single", 1, 1.15)}), "data 2")
      << "the fastest of equal ones";
  EXPECT_EQ(chosen({pipeline, slow_tensor}), "tensor 2");
  EXPECT_EQ(chosen({pipeline, finalist("data", 2, 1 + 1.01 * kDoubt)}), "pipeline 2") << "slower for certain";
}

TEST_F(BestPlans, OfAllProcessesThatWereStarted) {
  const Finalist single = finalist("single", 1, 1), data = finalist("data", 2, 1.5),
                 pipeline = finalist("pipeline", 2, 1.4);
  EXPECT_EQ(chosen({single, pipeline, data}), "single 1");
  EXPECT_EQ(chosen({single, pipeline, data}, 2), "data 2");
  EXPECT_EQ(chosen({single}, 2), "none");
}

TEST_F(BestPlans, OneThatFitsAndOfDescribedDevicesTheSimplestWithinOnePercent) {
  Finalist full = finalist("data", 2, 1.1);
  full.fits_simulated = false;
  EXPECT_EQ(chosen({finalist("pipeline", 2, 1), full}), "pipeline 2");
  const Finalist pipeline = finalist("pipeline", 2, 1, false), zero2 = finalist("zero2", 2, 1, false);
  EXPECT_EQ(chosen({pipeline, finalist("data", 2, 1.02, false)}), "pipeline 2");
  EXPECT_EQ(chosen({zero2, finalist("data", 2, 1.0003, false)}), "data 2");
}

}  // namespace
}  // namespace trireme::test_support
