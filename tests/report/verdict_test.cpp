// Verdicts for results made by hand: which row is named, and when none is.
#include "report/verdict.h"

#include <gtest/gtest.h>

#include <cmath>
#include <iterator>
#include <regex>

#include "base/text.h"
#include "report/columns.h"
#include "sample.h"

namespace trireme {
namespace {

/// A row with times in milliseconds. With one device its strategy is "single".
RunResult row_of(const char* name, int devices, double median, double p10, double p90, int64_t steps = 400) {
  RunResult row;
  row.strategy = row.name = name;
  row.devices = devices;
  row.step_seconds = StepSeconds{median / 1e3, p10 / 1e3, p90 / 1e3};
  row.epoch_seconds = median;
  row.curve = {{steps, 128 * steps, double(steps), 0.5}};
  return row;
}

std::vector<const RunResult*> pointers_to(const ExperimentResult& result) {
  std::vector<const RunResult*> rows;
  for (const RunResult& row : result.rows) rows.push_back(&row);
  return rows;
}

std::string words_of(const ExperimentResult& result, const std::string& clock = "real") {
  return join(sentences_of(verdict_of(pointers_to(result)), clock), " ");
}

ExperimentResult result_of(std::vector<RunResult> rows) {
  ExperimentResult result;
  result.rows = std::move(rows);
  return result;
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)
#define EXPECT_LACKS(text, part) EXPECT_EQ((text).find(part), std::string::npos) << (text)

TEST(Verdict, IntervalsOverlapWidelyFromHalfOfTheShorterOneOn) {
  EXPECT_FALSE(overlap_widely({10, 9, 11}, {12, 11, 13})) << "they touch";
  EXPECT_FALSE(overlap_widely({10, 9, 11}, {11, 10, 12})) << "exactly half";
  EXPECT_TRUE(overlap_widely({10, 9, 11}, {10.5, 9.5, 11.5}));
  EXPECT_TRUE(overlap_widely({10, 9, 20}, {11, 10.9, 11.1})) << "the shorter lies in the longer";
  EXPECT_FALSE(overlap_widely({10, 10, 10}, {11, 11, 11})) << "points differ";
  EXPECT_TRUE(overlap_widely({10, 10, 10}, {10, 10, 10})) << "points are equal";
}

TEST(Verdict, NamesAFastestRowWhereIntervalsAreApart) {
  const std::string text = words_of(
      result_of({row_of("single", 1, 20, 19, 22), row_of("data", 2, 10, 9.5, 11), row_of("tensor", 2, 15, 14, 16)}));
  EXPECT_EQ(
      text,
      "Fastest: data on 2 devices, 10.0 ms per step, 2.00 times as fast as one device and 1.50 times as fast as "
      "the next, tensor on 2 devices. The order holds on this machine, because its steps and those of tensor on 2 "
      "devices lie apart (10th to 90th percentile); another batch, model or number of devices may change it.");
  EXPECT_HAS(words_of(result_of({row_of("data", 2, 10, 9, 12), row_of("tensor", 2, 13, 11.5, 15)})),
             "because its steps and those of tensor on 2 devices overlap by less than 50 % (10th to 90th percentile);");
}

TEST(Verdict, OfPredictionsNamesNoLeadWithinTheirError) {
  const ExperimentResult result = result_of(
      {row_of("data", 2, 10, 10, 10), row_of("tensor", 2, 10.9, 10.9, 10.9), row_of("pipeline", 2, 11.5, 11.5, 11.5)});
  const std::string text = join(sentences_of(verdict_of(pointers_to(result), /*measured=*/false), "real"), " ");
  EXPECT_HAS(text, "Too close to call: data on 2 devices and tensor on 2 devices, 10.0 ms to 10.9 ms per step.");
}

TEST(Verdict, NamesNoFastestRowWhereIntervalsOverlap) {
  const std::string text = words_of(result_of({row_of("single", 1, 20, 19, 22), row_of("tensor", 2, 10.4, 9.6, 11.2),
                                               row_of("data", 2, 10, 9.5, 11), row_of("pipeline", 2, 15, 14, 16)}));
  EXPECT_HAS(text,
             "Too close to call: data on 2 devices and tensor on 2 devices, 10.0 ms to 10.4 ms per step, at least 1.92 "
             "times as fast as one device and at least 1.44 times as fast as the next, pipeline on 2 devices.");
  EXPECT_HAS(text,
             "The order is not sure: their steps overlap by more than 50 % (10th to 90th percentile); measure again "
             "with more steps (--steps 1600) or with rows that take turns (--repeat 4) on an idle machine, and trust "
             "an order that does not change.");
  EXPECT_LACKS(text, "Fastest");
  const std::string scattered = words_of(result_of(
      {row_of("data", 2, 10, 9.5, 11), row_of("tensor", 2, 12, 11.5, 12.5), row_of("pipeline", 2, 15, 9, 30)}));
  EXPECT_HAS(scattered, "Fastest: data on 2 devices, 10.0 ms per step, 1.20 times as fast as the next, tensor");
}

TEST(Verdict, IgnoresRowsWhoseTimesMeanNothing) {
  ExperimentResult result = result_of({row_of("single", 1, 20, 19, 22), row_of("data", 4, 5, 4.9, 5.1),
                                       row_of("tensor", 2, 6, 5.9, 6.1), row_of("pipeline", 2, 15, 14, 16)});
  result.rows[1].oversubscribed = true;
  result.rows[2].status = RunStatus::failed;
  EXPECT_HAS(words_of(result), "Fastest: pipeline on 2 devices, 15.0 ms per step, 1.33 times as fast as one device.");
  result.rows[3].status = result.rows[0].status = RunStatus::timed_out;
  EXPECT_EQ(words_of(result), "");
}

TEST(Verdict, OneDeviceMayBeTheFastest) {
  EXPECT_HAS(words_of(result_of({row_of("single", 1, 5, 4.9, 5.1), row_of("data", 2, 10, 9.5, 11)})),
             "Fastest: single on 1 device, 5.00 ms per step, 2.00 times as fast as the next, data on 2 devices.");
  EXPECT_EQ(words_of(result_of({row_of("single", 1, 5, 4.9, 5.1)})), "Fastest: single on 1 device, 5.00 ms per step.");
}

TEST(Verdict, SaysThatFewStepsGiveAHint) {
  const auto rows = [](int64_t steps) {
    return result_of({row_of("single", 1, 20, 19, 22, steps), row_of("data", 2, 10, 9.5, 11, 400)});
  };
  EXPECT_HAS(words_of(rows(4)), "a row has only 4 steps, too few for a firm result; measure again with more steps");
  EXPECT_HAS(words_of(rows(1)), "a row has only 1 step,");
  EXPECT_LACKS(words_of(rows(kFewSteps)), "only");
  ExperimentResult ended = rows(14);
  ended.rows[0].ended_early = "the target was reached";
  EXPECT_HAS(words_of(ended), "too few for a firm result; measure again with rows that take turns (--repeat 4) on");
}

TEST(Verdict, OfModelledAndSimulatedTimesHasNoIntervals) {
  ExperimentResult result = result_of({row_of("data", 2, 10, 5, 20, 4), row_of("tensor", 2, 10.4, 5, 20, 4)});
  for (RunResult& row : result.rows) row.backend = "virtual";
  EXPECT_EQ(
      words_of(result, "modelled"),
      "Fastest by the modelled clock: data on 2 devices, 10.0 ms per step, 1.04 times as fast as the next, tensor "
      "on 2 devices.");
  result = result_of({row_of("data", 2, 10, 5, 20, 0), row_of("tensor", 2, 10, 5, 20, 0)});
  EXPECT_EQ(join(sentences_of(verdict_of(pointers_to(result), /*measured=*/false), "real"), " "),
            "Equally fast: data on 2 devices and tensor on 2 devices, 10.0 ms per step.");
  result = result_of({row_of("data", 2, 10, 10, 10, 0), row_of("tensor", 2, 10.00001, 10, 10, 0)});
  EXPECT_EQ(join(sentences_of(verdict_of(pointers_to(result), /*measured=*/false), "real"), " "),
            "Equally fast: data on 2 devices and tensor on 2 devices, 10.0 ms per step.");
}

TEST(Verdict, NamesNoWinnerOfPredictionsThatAreCloserThanTheyErr) {
  const auto words = [](std::vector<RunResult> rows) {
    const ExperimentResult result = result_of(std::move(rows));
    return join(sentences_of(verdict_of(pointers_to(result), /*measured=*/false), "real"), " ");
  };
  const std::string close = words(
      {row_of("data", 2, 10, 10, 10, 0), row_of("tensor", 2, 10.9, 10.9, 10.9, 0), row_of("single", 1, 20, 20, 20, 0)});
  EXPECT_EQ(close,
            "Too close to call: data on 2 devices and tensor on 2 devices, 10.0 ms to 10.9 ms per step, at least 1.83 "
            "times as fast as one device. Predictions are usually off by up to 10 %, so they cannot order these plans; "
            "trireme compare on these devices measures them.");
  EXPECT_EQ(words({row_of("data", 2, 10, 10, 10, 0), row_of("tensor", 2, 11.1, 11.1, 11.1, 0)}),
            "Fastest: data on 2 devices, 10.0 ms per step, 1.11 times as fast as the next, tensor on 2 devices. The "
            "next is further behind than predictions are usually off (10 %); trireme compare on these devices measures "
            "it.");
}

TEST(Verdict, OfRowsWithoutASpreadSaysNoOverlap) {
  ExperimentResult result = result_of({row_of("local-sgd", 2, 10, 9.5, 11), row_of("data", 2, 12, 11.8, 12.2)});
  result.rows[0].replicas = ReplicaReport{.replicas = 2};
  result.rows[0].epoch_seconds = 12.1;
  std::string text = words_of(result);
  EXPECT_HAS(text,
             "local-sgd on 2 devices ran once (no spread is known), and its time lies within the other rows' epochs "
             "(10th to 90th percentile) or less than 0.5 % outside;");
  EXPECT_LACKS(text, "overlap");
  result.rows[0].epoch_seconds = 20;
  text = words_of(result);
  EXPECT_HAS(
      text,
      "because its epochs (10th to 90th percentile) take less than the time of local-sgd on 2 devices, which ran once "
      "(no spread is known);");
  result.rows[0].epoch_seconds = 5;
  EXPECT_HAS(
      words_of(result),
      "because it ran once (no spread is known), and its time is less than the epochs of data on 2 devices (10th");
}

TEST(Verdict, OfRowsThatAllRanOnceIsNotSure) {
  ExperimentResult result = result_of({row_of("local-sgd", 2, 10, 9.5, 11), row_of("easgd", 2, 12, 11.8, 12.2)});
  for (RunResult& row : result.rows) row.replicas = ReplicaReport{.replicas = 2};
  EXPECT_HAS(words_of(result),
             "The order is not sure: each row ran once, so no spread is known; measure again with a greater length or "
             "with rows that take turns (--repeat 4) on an idle machine");
}

TEST(Verdict, ComparesEpochsOfReplicas) {
  ExperimentResult result = result_of({row_of("local-sgd", 2, 10, 9.5, 11), row_of("data", 2, 12, 11.8, 12.2)});
  result.rows[0].replicas = ReplicaReport{.replicas = 2};
  result.rows[0].epoch_seconds = 20;
  EXPECT_HAS(words_of(result), "Fastest: data on 2 devices, 12.0 s per epoch");
  result.rows[0].epoch_seconds = 12.1;  // within the interval of data's epochs, 11.8 to 12.2 s
  const std::string text = words_of(result);
  EXPECT_HAS(text, "Too close to call: data on 2 devices and local-sgd on 2 devices, 12.0 s to 12.1 s per");
  EXPECT_HAS(text, "measure again with a greater length");
  EXPECT_LACKS(text, "--steps");
}

/// Policies of equal length learn different things, so the answer names the row that learned most.
TEST(Verdict, NamesTheBestMetricOfReplicas) {
  ExperimentResult result = result_of({row_of("data", 2, 12, 11.8, 12.2), row_of("local-sgd", 2, 10, 9.5, 11)});
  result.rows[1].replicas = ReplicaReport{.replicas = 2};
  result.rows[1].epoch_seconds = 5;
  const auto best = [&](const char* metric, double of_data, double of_local) {
    result.rows[0].test = EvaluationPoint{.metrics = {{metric, of_data}}};
    result.rows[1].test = EvaluationPoint{.metrics = {{metric, of_local}}};
    return verdict_sentences(result).front();
  };
  EXPECT_HAS(best("accuracy", 0.98, 0.96), "; best test accuracy: data on 2 devices, 98.0 % (the fastest: 96.0 %).");
  EXPECT_HAS(best("accuracy", 0.95, 0.96), "; best test accuracy: local-sgd on 2 devices, 96.0 %.");
  EXPECT_HAS(best("rmse", 0.5, 0.6), "; best test RMSE: data on 2 devices, 0.5 (the fastest: 0.6).");
  for (RunResult& row : result.rows) row.oversubscribed = true;
  EXPECT_EQ(best("rmse", 0.5, 0.6), "Best test RMSE: data on 2 devices, 0.5.") << "no time can be compared";
  result.rows[1].test.reset();
  EXPECT_LACKS(join(verdict_sentences(result), " "), "est test");
}

TEST(Verdict, OfRepeatedRowsCountsTheSpreadBetweenRuns) {
  ExperimentResult result = result_of({row_of("local-sgd", 2, 10, 9.5, 11), row_of("data", 2, 12, 11.8, 12.2)});
  result.rows[0].replicas = ReplicaReport{.replicas = 2};
  result.rows[0].epoch_seconds = 14;
  EXPECT_HAS(words_of(result), "Fastest: data on 2 devices");
  result.rows[0].repeats = {{.step_seconds = {}, .epoch_seconds = 11.9}, {.step_seconds = {}, .epoch_seconds = 15}};
  const std::string text = words_of(result);
  EXPECT_HAS(text, "Too close to call: data on 2 devices and local-sgd on 2 devices");
  EXPECT_HAS(text, "their epochs overlap by more than 50 % (10th to 90th percentile, and between runs);");
  EXPECT_HAS(text, "rows that take turns (--repeat 8)");
}

TEST(Verdict, ComparesEpochsOfRowsWhoseBatchesDiffer) {
  ExperimentResult result = result_of({row_of("single", 1, 20, 19, 22), row_of("data", 2, 24, 23, 25)});
  for (RunResult& row : result.rows) row.curve.insert(row.curve.begin(), {200, 25'600, 100, 0.7});
  EXPECT_HAS(words_of(result), "Fastest: single on 1 device, 20.0 ms per step");
  for (CurvePoint& point : result.rows[1].curve) point.samples *= 2;
  result.rows[1].epoch_seconds = 12;
  const std::string text = words_of(result);
  EXPECT_HAS(text, "Fastest: data on 2 devices, 12.0 s per epoch, 1.67 times as fast as one device");
  result.rows[0].status = RunStatus::failed;  // it has no time to compare
  EXPECT_HAS(words_of(result), "data on 2 devices, 24.0 ms per step");
}

TEST(Verdict, NamesFourRowsAndCountsMore) {
  const ExperimentResult result = result_of({row_of("a", 1, 1, 1, 1), row_of("b", 2, 1, 1, 1), row_of("c", 2, 1, 1, 1),
                                             row_of("d", 2, 1, 1, 1), row_of("e", 2, 1, 1, 1)});
  std::vector<const RunResult*> rows = pointers_to(result);
  EXPECT_EQ(names_of(rows), "a on 1 device, b on 2 devices, c on 2 devices and 2 more");
  rows.pop_back();
  EXPECT_EQ(names_of(rows), "a on 1 device, b on 2 devices, c on 2 devices and d on 2 devices");
}

TEST(Verdict, NamesAStrategyOnceForRowsThatFollowEachOther) {
  const ExperimentResult result = result_of({row_of("a", 2, 1, 1, 1), row_of("a", 4, 1, 1, 1), row_of("a", 8, 1, 1, 1),
                                             row_of("b", 2, 1, 1, 1), row_of("b", 4, 1, 1, 1)});
  std::vector<const RunResult*> rows = pointers_to(result);
  EXPECT_EQ(names_of(rows), "a on 2, 4 and 8 devices and 2 more");
  rows.erase(rows.begin());
  EXPECT_EQ(names_of(rows), "a on 4 and 8 devices and b on 2 and 4 devices");
  rows = {rows[2], rows[0], rows[3]};
  EXPECT_EQ(names_of(rows), "b on 2 devices, a on 4 devices and b on 4 devices");
}

TEST(Doubts, NameRowsWhoseStepsScatter) {
  ExperimentResult result = result_of({row_of("single", 1, 20, 18, 27), row_of("data", 2, 10, 9, 18)});
  const std::string text = join(doubts(result), " ");
  EXPECT_EQ(text,
            "steps vary because of other programs or samples of unequal length (data on 2 devices: the 90th percentile "
            "is up to 2.0 times the 10th)");
  result.rows[0].step_seconds->p90 *= 2;
  EXPECT_HAS(join(doubts(result), " "), "(all rows: the 90th percentile is up to 3.0 times the 10th)");
  result.rows[0].step_seconds->p90 /= 2;
  result.rows[1].replicas = ReplicaReport{.replicas = 2};
  EXPECT_TRUE(doubts(result).empty()) << "in some steps replicas exchange or wait";
  result.rows[1].replicas.reset();
  result.rows[1].oversubscribed = true;
  EXPECT_TRUE(doubts(result).empty()) << "the row has a warning of its own";
  result.rows[1].oversubscribed = false;
  result.rows[1].backend = "virtual";
  EXPECT_TRUE(doubts(result).empty()) << "no program disturbs a modelled clock";
}

TEST(Doubts, NameAnOnlyRowOfFewSteps) {
  ExperimentResult result = result_of({row_of("data", 2, 10, 9.5, 11)});
  result.rows[0].curve = {CurvePoint{.step = 12}};
  EXPECT_EQ(join(doubts(result), " "), "12 steps are too few for a firm result (--steps 20 or more)");
  result.rows[0].ended_early = "no improvement";
  EXPECT_EQ(join(doubts(result), " "), "12 steps are too few for a firm result") << "it ends early again";
  result.rows[0].ended_early.clear();
  result.rows[0].replicas = ReplicaReport{.replicas = 2};
  EXPECT_EQ(join(doubts(result), " "), "12 steps are too few for a firm result") << "policies may refuse --steps";
  result.rows[0].curve = {CurvePoint{.step = 20}};
  EXPECT_TRUE(doubts(result).empty());
}

TEST(Doubts, NamePredictionsThatAreFarOff) {
  ExperimentResult result = result_of({row_of("single", 1, 20, 19, 21), row_of("data", 2, 10, 9.5, 11)});
  result.rows[0].predicted = SimulatedStep{.step_seconds = 0.0135, .peak_memory = {}, .basis = "measured"};
  result.rows[1].predicted = SimulatedStep{.step_seconds = 0.004, .peak_memory = {}, .basis = "measured"};
  const std::string text = join(doubts(result), " ");
  EXPECT_HAS(text, "predicted and measured steps differ by a factor of up to 2.5 (data on 2 devices), because");
  result.rows[1].predicted->step_seconds = 0.0255;
  EXPECT_HAS(join(doubts(result), " "), "by a factor of up to 2.5") << "in both directions";
  result.rows[1].predicted->step_seconds = 0.011;
  EXPECT_TRUE(doubts(result).empty());
  result.rows[1].predicted->step_seconds = 0.004;
  result.simulated = "this machine";
  EXPECT_TRUE(doubts(result).empty()) << "nothing was measured";
}

TEST(Doubts, CompareRowsAndPredictionsAtTheSpeedOfTheCores) {
  ExperimentResult result = result_of({row_of("single", 1, 20, 19, 21), row_of("data", 2, 10, 9.5, 11)});
  for (RunResult& row : result.rows)
    row.predicted = SimulatedStep{.step_seconds = 0.01, .peak_memory = {}, .basis = "measured", .core_seconds = 5e-5};
  EXPECT_FALSE(core_speed_of(result.rows[0])) << "not measured in the run";
  EXPECT_EQ(prediction_at_core_speed(result.rows[0]), 0.01);
  EXPECT_HAS(join(doubts(result), " "), "differ by a factor of up to 2.0 (single on 1 device)");
  result.rows[0].core_seconds = 1e-4;
  result.rows[1].core_seconds = 5e-5;
  EXPECT_EQ(core_speed_of(result.rows[0]), 0.5);
  EXPECT_NEAR(prediction_at_core_speed(result.rows[0]), 0.0174, 1e-4) << "less than twice as long: kCoreSensitivity";
  EXPECT_EQ(join(doubts(result), " "),
            "the cores were 2.00 times as fast during data on 2 devices as during single on 1 device");
  result.rows[1].core_seconds = 9.5e-5;
  EXPECT_LACKS(join(doubts(result), " "), "times as fast");
}

TEST(Doubts, CompareTheSpeedOfTheMemory) {
  ExperimentResult result = result_of({row_of("single", 1, 20, 19, 21), row_of("data", 2, 10, 9.5, 11)});
  for (RunResult& row : result.rows)
    row.predicted = SimulatedStep{.step_seconds = row.step_seconds->median, .peak_memory = {}, .basis = "measured"};
  result.rows[0].memory_speed = 1e10;
  result.rows[1].memory_speed = 2e10;
  EXPECT_FALSE(memory_speed_of(result.rows[0])) << "the profile does not know it";
  EXPECT_TRUE(doubts(result).empty());
  for (RunResult& row : result.rows) row.predicted->memory_speed = 2.5e10;
  EXPECT_EQ(memory_speed_of(result.rows[0]), 0.4);
  EXPECT_EQ(join(doubts(result), " "),
            "the memory was 2.00 times as fast during data on 2 devices as during single on 1 device");
  EXPECT_HAS(join(summary(result), " "),
             "off by 0 %; the memory was 0.40 to 0.80 times as fast as when nothing disturbed it, which");
  result.rows[0].memory_speed = 1.8e10;
  EXPECT_TRUE(doubts(result).empty());
  EXPECT_LACKS(join(summary(result), " "), "memory");
}

TEST(Summary, NamesRowsThatAreTooCloseTogetherAtTheTarget) {
  ExperimentResult result = test_support::sample_result();
  for (const std::string& sentence : summary(result)) EXPECT_LACKS(sentence, "Too close");
  result.rows[2].step_seconds = result.rows[1].step_seconds;
  result.rows[2].step_seconds->median *= 1.01;
  const std::string text = join(summary(result), "\n");
  EXPECT_HAS(text, "Too close to call: data on 2 devices and pipeline on 2 devices");
  EXPECT_HAS(text,
             "; first at a test accuracy of 98.0 %: data on 2 devices and pipeline on 2 devices, after about 3.39 s.");
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// Sentences end with ". " and a capital letter, or with the text.
size_t sentences_in(const std::string& text) {
  static const std::regex kEnd("\\.( [A-Z]|$)");
  return size_t(std::distance(std::sregex_iterator(text.begin(), text.end(), kEnd), std::sregex_iterator()));
}

/// Every combination of what can disturb a comparison or add to its verdict.
TEST(Summary, HasAtMostTwoSentencesAndOneAdviceWhateverIsInDoubt) {
  enum Case { close, few_steps, scatter, far_off, replicas, repeats, target, failed, no_next, simulated, kCases };
  for (unsigned set = 0; set < 1u << kCases; ++set) {
    const auto has = [&](Case c) { return (set >> c & 1) != 0; };
    const int64_t steps = has(few_steps) ? 4 : 400;
    ExperimentResult result =
        result_of({row_of("single", 1, 20, 19, 22, steps), row_of("data", 2, 10, 9.5, 11, steps),
                   row_of("tensor", 2, has(close) ? 10.4 : 15, has(close) ? 9.6 : 14, has(close) ? 11.2 : 16, steps)});
    if (has(scatter)) result.rows[1].step_seconds->p90 *= 2;
    for (RunResult& row : result.rows) {
      row.test = EvaluationPoint{.loss = 0.1, .metrics = {{"accuracy", 0.9 + row.step_seconds->median}}};
      if (has(far_off)) row.predicted = SimulatedStep{.step_seconds = 0.001, .peak_memory = {}, .basis = "measured"};
      if (has(repeats)) row.repeats = {{*row.step_seconds, 9.9}, {*row.step_seconds, 10.3}};
      if (has(target)) row.target = 0.9, row.to_target = ToTarget{100, 1, 100 * row.step_seconds->median};
    }
    if (has(replicas)) result.rows[2].replicas = ReplicaReport{.replicas = 2};
    if (has(failed)) result.rows[0].status = RunStatus::failed;
    if (has(no_next)) result.rows.erase(result.rows.begin() + (has(close) ? 0 : 2));
    if (has(simulated)) result.simulated = "this machine";
    const std::string text = join(verdict_sentences(result), " ");
    EXPECT_LE(sentences_in(text), 2u) << set << ": " << text;
    EXPECT_EQ(sentences_in(text), verdict_sentences(result).size()) << set << ": " << text;
    EXPECT_LE(count_of(text, "easure again"), 1u) << set << ": " << text;
    EXPECT_LE(count_of(text, "trust "), 1u) << set << ": " << text;
    const bool measured = !has(simulated);
    EXPECT_EQ(count_of(text, "steps vary"), measured && has(scatter) ? 1u : 0u) << set << ": " << text;
    EXPECT_EQ(count_of(text, "predicted and measured"), measured && has(far_off) ? 1u : 0u) << set << ": " << text;
    if (measured && (has(scatter) || has(far_off))) {
      EXPECT_HAS(text, "measure again");
    }
  }
}

TEST(Summary, OfOneRowSaysWhatItTookAndLearned) {
  ExperimentResult result = test_support::sample_result();
  result.rows = {result.rows[1]};
  EXPECT_EQ(join(verdict_sentences(result), " "),
            "data on 2 devices: 11.3 ms per step, test accuracy 98.9 % and test loss 0.0608 at the end; a test "
            "accuracy of 98.0 % was reached after 3.39 s.");
  RunResult& row = result.rows.front();
  row.to_target.reset();
  row.predicted = SimulatedStep{.step_seconds = 0.0226, .peak_memory = {}, .basis = "measured"};
  EXPECT_EQ(join(verdict_sentences(result), " "),
            "data on 2 devices: 11.3 ms per step, test accuracy 98.9 % and test loss 0.0608 at the end; a step takes "
            "0.50 times the predicted 22.6 ms; a test accuracy of 98.0 % was not reached. The time is not sure: "
            "predicted and measured steps differ by a factor of up to 2.0 (data on 2 devices), because the machine was "
            "busy or the predictions do not hold here; measure again on an idle machine, and trust what both runs "
            "show.");
  row.test.reset();
  row.predicted.reset();
  row.curve.back().loss = std::nan("");
  EXPECT_EQ(join(verdict_sentences(result), " "),
            "data on 2 devices: 11.3 ms per step, loss not finite in the last step.");
  row.status = RunStatus::failed;
  EXPECT_TRUE(verdict_sentences(result).empty()) << "its reason is printed instead";
}

}  // namespace
}  // namespace trireme
