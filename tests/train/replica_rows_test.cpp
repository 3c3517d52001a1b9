// What the rows of whole runs under update policies say.
#include <gmock/gmock.h>

#include <chrono>

#include "replica_training.h"

namespace trireme::test_support {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class ReplicaRows : public Replicas {};

TEST_F(ReplicaRows, EvaluationsEndWithTheTimeLimitAndTheLastOneIsMade) {
  modelled(0.01);
  experiment.evaluate_every = {1, Length::Unit::steps};
  experiment.time_limit = 2;
  test_set->pause = std::chrono::milliseconds(100);  // half a second per evaluation, and training takes far less
  const RunResult row = run("local-sgd,every=1 steps", 2).row;
  ASSERT_EQ(row.status, RunStatus::ok) << row.reason;
  EXPECT_LT(row.evaluations.size(), row.curve.size() / 2);
  ASSERT_FALSE(row.evaluations.empty());
  EXPECT_EQ(row.evaluations.back().samples, row.curve.back().samples);
  EXPECT_THAT(row.warnings, Contains(HasSubstr("evaluations were left out, because time_limit was reached")));
}

TEST_F(ReplicaRows, ARunThatTimesOutMakesOnlyTheLastEvaluation) {
  experiment.length = {100000, Length::Unit::epochs};
  experiment.evaluate_every = {5, Length::Unit::steps};
  experiment.time_limit = 0.3;
  for (const char* strategy : {"local-sgd,every=2 steps", "easgd"}) {
    const RunResult row = run(strategy, 2).row;
    EXPECT_EQ(row.status, RunStatus::timed_out) << strategy;
    EXPECT_GT(row.curve.size(), 20u) << strategy;
    EXPECT_EQ(row.evaluations.size(), 1u) << strategy;
  }
}

}  // namespace
}  // namespace trireme::test_support
