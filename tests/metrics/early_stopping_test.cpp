#include "metrics/early_stopping.h"

#include <gtest/gtest.h>

#include <cmath>

#include "../base/expect_error.h"
#include "trireme/error.h"

namespace trireme::test_support {
namespace {

EvaluationPoint evaluation(int64_t step, double loss, double accuracy) {
  return {.step = step, .loss = loss, .metrics = {{"accuracy", accuracy}}};
}

TEST(EarlyStopping, CountsEvaluationsWithoutImprovement) {
  EarlyStopping rule({.patience = 2}, LearningTask::classification, std::nullopt);
  rule.add(evaluation(10, 1, 0.5));
  rule.add(evaluation(20, 0.9, 0.5));  // the loss is not watched
  EXPECT_EQ(rule.reason(), "");
  rule.add(evaluation(30, 1, 0.75));
  rule.add(evaluation(40, 1, 0.7));
  EXPECT_EQ(rule.reason(), "");
  EXPECT_EQ(rule.state().without_improvement, 1);
  rule.add(evaluation(50, 1, std::nan("")));
  EXPECT_EQ(rule.reason(), "no better test accuracy in 2 evaluations; the best, 75.0 %, was after step 30");
}

TEST(EarlyStopping, AnImprovementIsLargerThanMinDelta) {
  EarlyStopping rule({.patience = 2, .min_delta = 0.25, .measure = "loss"}, LearningTask::classification, std::nullopt);
  rule.add(evaluation(1, 2, 0));
  rule.add(evaluation(2, 1.75, 1));  // by 0.25
  EXPECT_EQ(rule.state().without_improvement, 1);
  rule.add(evaluation(3, 1.5, 1));  // by 0.5, compared with the best
  EXPECT_EQ(rule.state().without_improvement, 0);
  EXPECT_EQ(rule.state().best, 1.5);
  rule.add(evaluation(4, 9, 1));
  rule.add(evaluation(5, 1.3, 1));
  EXPECT_EQ(rule.reason(), "no better test loss in 2 evaluations (by more than 0.25); the best, 1.5, was after step 3");
}

TEST(EarlyStopping, EndsAtTheTargetOfAMetricThatFalls) {
  const EarlyStoppingSpec spec{.at_target = true};
  EarlyStopping rule(spec, LearningTask::language, 100.0);
  rule.add({.step = 1, .loss = 5, .metrics = {{"perplexity", 101}}});
  EXPECT_EQ(rule.reason(), "");
  rule.add({.step = 2, .loss = std::nan(""), .metrics = {{"perplexity", 1}}});
  EXPECT_EQ(rule.reason(), "") << "the loss is not finite";
  rule.add({.step = 3, .loss = 4, .metrics = {{"perplexity", 99.5}}});
  EXPECT_EQ(rule.reason(), "the target is reached: test perplexity 99.5");
  EarlyStopping marks({}, LearningTask::language, 100.0);
  marks.add({.step = 3, .loss = 4, .metrics = {{"perplexity", 99.5}}});
  EXPECT_EQ(marks.reason(), "") << "a target alone only marks the time";
}

TEST(EarlyStopping, GoesOnFromAnEarlierRun) {
  const EarlyStoppingSpec spec{.patience = 3, .measure = "loss"};
  EarlyStopping whole(spec, LearningTask::classification, std::nullopt);
  whole.add(evaluation(1, 1, 0));
  whole.add(evaluation(2, 2, 0));
  EarlyStopping second(spec, LearningTask::classification, std::nullopt, whole.state());
  second.add(evaluation(3, 2, 0));
  EXPECT_EQ(second.reason(), "");
  second.add(evaluation(4, 1, 0));
  EXPECT_EQ(second.reason(), "no better test loss in 3 evaluations; the best, 1, was after step 1");
  EarlyStopping other({.patience = 3}, LearningTask::classification, std::nullopt, whole.state());
  EXPECT_FALSE(other.state().best) << "of another measure";
  EXPECT_EQ(other.state().measure, "accuracy");
}

TEST(EarlyStopping, ReadsItsTable) {
  const auto read = [](const std::string& text) {
    return read_early_stopping(ConfigTable::from_string(text, "e.toml").table("early_stopping"));
  };
  EXPECT_FALSE(read("").wanted());
  const EarlyStoppingSpec spec = read("[early_stopping]\npatience = 3\nmin_delta = 0.5\nmeasure = \"loss\"");
  EXPECT_TRUE(spec.wanted());
  EXPECT_EQ(spec.patience, 3);
  EXPECT_EQ(spec.min_delta, 0.5);
  EXPECT_EQ(spec.measure, "loss");
  expect_error(Blame::user, {"patience", "is missing"}, [&] { read("[early_stopping]\nmin_delta = 0.5"); });
  expect_error(Blame::user, {"patience"}, [&] { read("[early_stopping]\npatience = 0"); });
  expect_error(Blame::user, {"min_delta"}, [&] { read("[early_stopping]\npatience = 1\nmin_delta = -1.0"); });
  const EarlyStoppingSpec best = read("[early_stopping]\nrestore_best = true\nmeasure = \"loss\"");
  EXPECT_TRUE(best.restore_best);
  EXPECT_TRUE(best.watches());
  EXPECT_FALSE(best.wanted()) << "nothing ends the run";
  EXPECT_EQ(best.measure, "loss");
  expect_error(Blame::user, {"patience", "is missing"},
               [&] { read("[early_stopping]\nrestore_best = true\nmin_delta = 0.5"); });
}

TEST(EarlyStopping, KnowsTheBestEvaluation) {
  EarlyStopping rule({.restore_best = true}, LearningTask::classification, std::nullopt);
  EXPECT_FALSE(rule.improved());
  rule.add(evaluation(1, 1, std::nan("")));
  EXPECT_FALSE(rule.improved());
  rule.add(evaluation(2, 1, 0.5));
  EXPECT_TRUE(rule.improved());
  rule.add(evaluation(3, 1, 0.5));
  EXPECT_FALSE(rule.improved()) << "the first of equal ones is the best";
  EXPECT_EQ(rule.state().best_step, 2);
  EXPECT_EQ(rule.reason(), "");
}

TEST(EarlyStopping, ATargetIsReachedByAFiniteModel) {
  EXPECT_FALSE(reached_by(evaluation(3, 1, 0.5), std::nullopt));
  EXPECT_FALSE(reached_by(evaluation(3, 1, 0.5), 0.6));
  EXPECT_FALSE(reached_by(evaluation(3, std::nan(""), 0.7), 0.6));
  const std::optional<TargetReached> reached = reached_by(evaluation(3, 1, 0.7), 0.6);
  ASSERT_TRUE(reached);
  EXPECT_EQ(reached->target, 0.6);
  EXPECT_EQ(reached->after.steps, 3);
}

TEST(EarlyStopping, RefusesWhatItCannotWatch) {
  const auto check = [](const EarlyStoppingSpec& spec) { check_early_stopping(spec, LearningTask::classification, 4); };
  EXPECT_NO_THROW(check({.patience = 1, .measure = "loss"}));
  EXPECT_NO_THROW(check({.patience = 1, .measure = "accuracy"}));
  for (const EarlyStoppingSpec& spec : {EarlyStoppingSpec{.patience = 1, .measure = "perplexity", .where = "e.toml:3"},
                                        EarlyStoppingSpec{.measure = "perplexity", .restore_best = true}})
    expect_error(Blame::user, {"perplexity", "do not measure it", "loss, accuracy"}, [&] { check(spec); });
}

}  // namespace
}  // namespace trireme::test_support
