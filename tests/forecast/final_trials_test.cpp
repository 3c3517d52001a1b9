// Trial steps choose among plans that predictions cannot tell apart.
#include "forecast/final_trials.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "../train/tiny_training.h"
#include "base/devices/at_core_speed.h"
#include "forecast/finalists.h"
#include "plan/named.h"
#include "trireme/error.h"

namespace trireme::test_support {
namespace {

class FinalTrialsTest : public TinyTraining {
 protected:
  Finalist finalist(const std::string& name, int devices, double simulated) {
    return {.rated = {.plan = named_plan(name, model, Cluster::uniform(devices), experiment.batch, {}, 4),
                      .prediction = {},
                      .objective = simulated},
            .simulated = simulated,
            .is_measured = true};
  }
  /// Steps take what `seconds` says, by name; a plan without an entry cannot run.
  MeasureStep steps() {
    return [this](const Plan& plan) {
      ++trials[plan.name];
      const auto found = seconds.find(plan.name);
      return found == seconds.end() ? TrialStep{.why_not = "its cores are missing"} : TrialStep{found->second};
    };
  }
  std::string chosen(FinalTrials& trials, const std::vector<Finalist>& finalists, int devices = 0) {
    const Finalist* const found = trials.choose(finalists, model, devices);
    return found ? found->rated.plan.name : "none";
  }

  const Model model = build_model(experiment, data);
  std::map<std::string, double> seconds;
  std::map<std::string, int> trials;
};

TEST_F(FinalTrialsTest, TheFastestIsChosenWhateverWasPredicted) {
  seconds = {{"pipeline", 0.2}, {"data", 0.1}, {"tensor", 0.11}};
  FinalTrials final_trials(steps(), 0);
  EXPECT_EQ(
      chosen(final_trials, {finalist("pipeline", 2, 0.08), finalist("tensor", 2, 0.1), finalist("data", 2, 0.11)}),
      "data");
  EXPECT_EQ(trials, (std::map<std::string, int>{{"pipeline", 1}, {"data", 3}, {"tensor", 3}})) << "clearly slower";
  const std::string words = final_trials.take_line(model);
  EXPECT_EQ(words.find("trial steps: data 2 took 100 ms (predicted 110 ms), tensor 2 took"), 0U) << words;
}

TEST_F(FinalTrialsTest, OfEquallyFastPlansTheSimplest) {
  seconds = {{"pipeline", 0.1}, {"data", 0.102}, {"zero1", 0.101}};
  FinalTrials final_trials(steps(), 0);
  EXPECT_EQ(chosen(final_trials, {finalist("pipeline", 2, 0.1), finalist("zero1", 2, 0.1), finalist("data", 2, 0.1)}),
            "data");
  seconds["data"] = 0.104;
  FinalTrials others(steps(), 0);
  EXPECT_EQ(chosen(others, {finalist("pipeline", 2, 0.1), finalist("zero1", 2, 0.1), finalist("data", 2, 0.1)}),
            "pipeline")
      << "zero1 looks like data, which is simpler";
  EXPECT_EQ(trials["zero1"], 0);
}

TEST_F(FinalTrialsTest, ASimplePlanIsTriedAmongManyThatArePredictedToBeFaster) {
  const std::vector<std::string> names{"pipeline", "gpipe", "1f1b", "zero-bubble", "zero1"};
  std::vector<Finalist> finalists;
  for (const std::string& name : names) {
    finalists.push_back(finalist(name, 2, 0.1 + 0.001 * double(finalists.size())));
    seconds[name] = 0.2;
  }
  finalists.push_back(finalist("data", 2, 0.14));
  seconds["data"] = 0.15;
  FinalTrials final_trials(steps(), 0);
  EXPECT_EQ(chosen(final_trials, finalists), "data");
  EXPECT_LE(trials.size(), FinalTrials::kMostTried);
  finalists.back().simulated = 0.16;  // much slower for certain
  trials.clear();
  FinalTrials others(steps(), 0);
  EXPECT_NE(chosen(others, finalists), "data");
  EXPECT_FALSE(trials.contains("data"));
}

TEST_F(FinalTrialsTest, BetweenProcessesTheSimplestIsTriedWhateverWasPredicted) {
  seconds = {{"pipeline", 0.2}, {"data", 0.1}, {"tensor", 0.2}};
  FinalTrials final_trials(steps(), 0, std::numeric_limits<double>::infinity());
  EXPECT_EQ(
      chosen(final_trials, {finalist("pipeline", 2, 0.01), finalist("tensor", 2, 0.011), finalist("data", 2, 0.5)}),
      "data");
}

TEST_F(FinalTrialsTest, PlansOfOneShapeAreTriedLast) {
  std::vector<Finalist> finalists;
  for (const char* name : {"1f1b", "zero-bubble", "zero-bubble-h2", "zero-bubble-2p", "tensor", "data"}) {
    finalists.push_back(finalist(name, 2, 0.1 + 0.001 * double(finalists.size())));
    seconds[name] = 0.1;
  }
  FinalTrials final_trials(steps(), 0);
  chosen(final_trials, finalists);
  EXPECT_TRUE(trials.contains("tensor") && trials.contains("data") && trials.contains("1f1b"));
  EXPECT_EQ(trials.size(), FinalTrials::kMostTried) << "the next place is for the fastest other schedule";
  EXPECT_TRUE(trials.contains("zero-bubble"));
}

TEST_F(FinalTrialsTest, PlansAreComparedAtOneSpeedOfTheCores) {
  // "data" was measured while the cores were half as fast.
  const MeasureStep step = [](const Plan& plan) {
    return plan.name == "data" ? TrialStep{at_core_speed(0.1, 1, 2), 2.0} : TrialStep{0.11, 1.0};
  };
  FinalTrials final_trials(step, 1);
  EXPECT_EQ(chosen(final_trials, {finalist("tensor", 2, 0.1), finalist("data", 2, 0.1)}), "data");
}

TEST_F(FinalTrialsTest, APlanIsMeasuredOnce) {
  seconds = {{"data", 0.1}, {"tensor", 0.11}, {"single", 0.12}};
  FinalTrials final_trials(steps(), 0);
  const Finalist tensor = finalist("tensor", 2, 0.1), data_parallel = finalist("data", 2, 0.1);
  EXPECT_EQ(chosen(final_trials, {tensor, data_parallel}), "data");
  EXPECT_EQ(chosen(final_trials, {tensor, data_parallel, finalist("single", 1, 0.1)}), "data");
  EXPECT_EQ(trials, (std::map<std::string, int>{{"data", 3}, {"tensor", 3}, {"single", 3}}));
}

TEST_F(FinalTrialsTest, PlansThatCannotRunOrHaveOtherDevicesAreNotChosen) {
  seconds = {{"tensor", 0.2}, {"single", 0.1}};
  FinalTrials final_trials(steps(), 0);
  Finalist full = finalist("gpipe", 2, 0.09);
  full.fits_simulated = false;
  const std::vector<Finalist> finalists{finalist("data", 2, 0.1), finalist("tensor", 2, 0.12), full,
                                        finalist("single", 1, 0.1)};
  EXPECT_EQ(chosen(final_trials, finalists), "single");
  EXPECT_EQ(chosen(final_trials, finalists, 2), "tensor");
  EXPECT_FALSE(trials.contains("gpipe"));
  EXPECT_EQ(trials["data"], 1) << "not again where it could not run";
  const std::string words = final_trials.take_line(model);
  EXPECT_NE(words.find("; data 2 could not run (its cores are missing)"), words.npos) << words;
  seconds.clear();
  FinalTrials none(steps(), 0);
  EXPECT_EQ(chosen(none, finalists, 2), "none");
  EXPECT_NE(none.take_line(model).find("trial steps: data 2 could not run"), words.npos);
}

TEST_F(FinalTrialsTest, APlanThatARunRefusesIsLeftOut) {
  const std::vector<Finalist> finalists{finalist("tensor", 2, 0.1), finalist("data", 2, 0.1),
                                        finalist("gpipe", 2, 0.12)};
  int round = 0;
  const auto failing = [&](Blame blame) {
    return [&round, blame](const Plan& plan) {
      if (plan.name == "data") throw Error(blame, {"a plan", "does not suit the data", "", ""});
      if (plan.name == "tensor" && ++round == 2) return TrialStep{.why_not = "a rank is gone"};
      return TrialStep{plan.name == "tensor" ? 0.1 : 0.12};
    };
  };
  FinalTrials final_trials(failing(Blame::user), 0);
  EXPECT_EQ(chosen(final_trials, finalists), "gpipe") << "tensor failed in the second round";
  FinalTrials others(failing(Blame::run), 0);
  EXPECT_THROW(others.choose(finalists, model), Error);
}

TEST_F(FinalTrialsTest, OfPlansThatLookAlikeOneIsTried) {
  Finalist data = finalist("data", 2, 0.1), alike = finalist("data", 2, 0.101);
  alike.rated.plan.name = "alike";
  alike.rated.plan.layers.back().split = "other";
  seconds = {{"data", 0.1}, {"alike", 0.05}, {"tensor", 0.12}};
  FinalTrials final_trials(steps(), 0);
  EXPECT_EQ(chosen(final_trials, {data, alike, finalist("tensor", 2, 0.11)}), "data");
  EXPECT_FALSE(trials.contains("alike"));
}

TEST_F(FinalTrialsTest, LongStepsAreTriedOnce) {
  seconds = {{"data", 2}, {"tensor", 2.5}};
  FinalTrials final_trials(steps(), 0);
  EXPECT_EQ(chosen(final_trials, {finalist("tensor", 2, 2), finalist("data", 2, 2.5), finalist("gpipe", 2, 4.5)}),
            "data");
  EXPECT_EQ(trials, (std::map<std::string, int>{{"data", 1}, {"tensor", 1}}));
}

TEST_F(FinalTrialsTest, NothingIsTriedWhereNothingCanBeLearnt) {
  seconds = {{"data", 0.1}, {"tensor", 0.1}};
  FinalTrials final_trials(steps(), 0);
  EXPECT_EQ(chosen(final_trials, {finalist("data", 2, 0.1)}), "none");
  EXPECT_EQ(chosen(final_trials, {finalist("data", 2, 100), finalist("tensor", 2, 100)}), "none") << "too long";
  Finalist described = finalist("data", 2, 0.1), other = finalist("tensor", 2, 0.1);
  described.is_measured = other.is_measured = false;
  EXPECT_EQ(chosen(final_trials, {described, other}), "none");
  EXPECT_TRUE(trials.empty());
  EXPECT_EQ(final_trials.take_line(model), "");
  seconds.clear();
  EXPECT_EQ(chosen(final_trials, {finalist("data", 2, 0.1), finalist("tensor", 2, 0.1)}), "none") << "none can run";
}

}  // namespace
}  // namespace trireme::test_support
