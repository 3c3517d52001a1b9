// Measurements of a run: records, step gate, summary, comparison of rows.
#include "train/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <random>
#include <thread>

#include "train/compare.h"

namespace trireme {
namespace {

constexpr Summary::Goal kGoal{LearningTask::classification, 4};

StepOutcome outcome(double begin, double end, double loss = 0) {
  StepOutcome o;
  o.begin = begin;
  o.end = end;
  o.loss_sum = loss;
  return o;
}

TEST(StepRecords, EntriesAreCompleteAndInOrder) {
  StepRecords records(2);
  bool timed_out = false;
  EXPECT_FALSE(records.next(0.01, timed_out));
  EXPECT_TRUE(timed_out);
  records.post(1, 1, false, outcome(0, 1, 3));
  records.post(1, 1, true, outcome(1, 2, 30));
  records.post(1, 2, false, outcome(2, 3, 4));
  EXPECT_FALSE(records.next(0.01, timed_out)) << "rank 0 is missing";
  records.post(0, 1, false, outcome(0.5, 1.5, 5));
  auto entry = records.next(1, timed_out);
  ASSERT_TRUE(entry);
  EXPECT_FALSE(timed_out);
  EXPECT_EQ(entry->step, 1);
  EXPECT_FALSE(entry->evaluation);
  EXPECT_EQ(entry->loss_sum(), 8);
  EXPECT_EQ(entry->begin(), 0);
  EXPECT_EQ(entry->end(), 1.5);
  records.post(0, 1, true, outcome(2, 3, 1));
  records.post(0, 2, false, outcome(3, 4, 1));
  entry = records.next(1, timed_out);
  ASSERT_TRUE(entry && entry->evaluation) << "a step's evaluation follows the step";
  entry = records.next(1, timed_out);
  ASSERT_TRUE(entry && !entry->evaluation);
  EXPECT_EQ(entry->step, 2);
}

TEST(StepRecords, CloseLetsReadersEnd) {
  StepRecords records(2);
  bool timed_out = true;
  records.post(0, 1, false, outcome(0, 1));
  records.post(1, 1, false, outcome(0, 1));
  records.post(0, 2, false, outcome(1, 2));  // stays incomplete
  records.close();
  EXPECT_TRUE(records.next(10, timed_out)) << "what is complete is still read";
  EXPECT_FALSE(records.next(10, timed_out));
  EXPECT_FALSE(timed_out);
}

TEST(StepRecords, ReaderIsWoken) {
  StepRecords records(1);
  std::thread poster([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    records.post(0, 1, false, outcome(0, 1));
  });
  bool timed_out = true;
  EXPECT_TRUE(records.next(10, timed_out));
  poster.join();
}

TEST(StepRecords, MetricsAddOverRanks) {
  StepRecord entry;
  entry.outcomes.resize(3);
  entry.outcomes[0].metrics["correct"] = 2;
  entry.outcomes[0].metrics["top5"] = 7;
  entry.outcomes[2].metrics["correct"] = 3;
  EXPECT_EQ(entry.metrics(), (std::map<std::string, double>{{"correct", 5}, {"top5", 7}}));
}

TEST(StepRecords, KeepsEachRanksTimeForLoading) {
  StepRecords records(2);
  records.post(1, 1, false, outcome(0, 1), 0.25);
  records.post(0, 1, false, outcome(0, 1));
  bool timed_out = false;
  EXPECT_EQ(records.next(1, timed_out)->load_seconds, (std::vector<double>{0, 0.25}));
}

TEST(StepGate, EndsAfterTheNewestBegunStep) {
  StepGate gate;
  EXPECT_TRUE(gate.enter(0));
  EXPECT_TRUE(gate.enter(1));
  gate.stop();
  EXPECT_TRUE(gate.enter(0)) << "the others still do the steps that the first one did";
  EXPECT_TRUE(gate.enter(1));
  EXPECT_FALSE(gate.enter(2));
  gate.stop();
  EXPECT_FALSE(gate.enter(2));
}

TEST(StepGate, ContinuesAfterAPauseButNotAfterAStop) {
  StepGate gate;
  EXPECT_TRUE(gate.enter(0));
  gate.request_probe();
  gate.pause();
  EXPECT_FALSE(gate.enter(1));
  EXPECT_TRUE(gate.reopen());
  EXPECT_TRUE(gate.enter(1));
  EXPECT_TRUE(gate.probes_before(1)) << "the first step that no worker had begun";
  EXPECT_FALSE(gate.probes_before(0));
  EXPECT_FALSE(gate.probes_before(2));
  gate.pause();
  gate.stop();
  EXPECT_FALSE(gate.reopen());
  EXPECT_FALSE(gate.enter(2));
}

TEST(StepRecords, ThePlanMayChangeTheNumberOfRanks) {
  StepRecords records(2);
  records.post(0, 1, false, outcome(0, 1));
  records.post(1, 1, false, outcome(0, 1));
  records.change_plan(1);
  records.post(0, 2, false, outcome(1, 2));
  records.change_plan(3);
  for (int rank = 0; rank < 3; ++rank) records.post(rank, 3, false, outcome(2, 3, 1));
  bool timed_out = false;
  for (const auto& [plan, ranks] : std::vector<std::pair<int, size_t>>{{0, 2}, {1, 1}, {2, 3}}) {
    const auto entry = records.next(1, timed_out);
    ASSERT_TRUE(entry);
    EXPECT_EQ(entry->plan, plan);
    EXPECT_EQ(entry->outcomes.size(), ranks);
  }
}

TEST(StepGate, AllWorkersAgree) {
  for (int round = 0; round < 20; ++round) {
    StepGate gate;
    std::atomic<int64_t> done[4] = {};
    std::vector<std::thread> workers;
    for (auto& mine : done)
      workers.emplace_back([&] {
        for (int64_t step = 0; gate.enter(step); ++step) ++mine;
      });
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    gate.stop();
    for (auto& worker : workers) worker.join();
    for (auto& mine : done) EXPECT_EQ(mine, done[0]);
  }
}

StepRecord step_entry(int64_t step, double begin, double end, double compute, double exposed, double hidden = 0,
                      int64_t bytes = 0) {
  StepRecord entry{false, step, {}};
  StepOutcome o = outcome(begin, end, 6);
  o.compute_seconds = compute;
  o.exposed_seconds = exposed;
  o.hidden_seconds = hidden;
  o.bytes_sent = bytes;
  entry.outcomes.assign(2, o);
  entry.outcomes[1].loss_sum = 0;
  entry.outcomes[1].compute_seconds = compute / 2;
  return entry;
}

TEST(Summary, WarmUp) {
  EXPECT_EQ(warmup_steps(1), 0);
  EXPECT_EQ(warmup_steps(2), 0);
  EXPECT_EQ(warmup_steps(3), 1);
  EXPECT_EQ(warmup_steps(6), 2);
  EXPECT_EQ(warmup_steps(1000), 3);
}

TEST(Summary, QuantilesAndShares) {
  Experiment experiment;
  Summary summary(experiment, kGoal, 2, 100, 10, 5);  // with one step of warm-up
  double clock = 50;
  summary.add_step(step_entry(1, clock, clock + 100, 100, 0, 0, 1000), 12);
  clock += 100;
  for (int64_t step = 2; step <= 11; ++step) {  // 1 .. 10 seconds
    const double seconds = double(step - 1);
    const CurvePoint point = *summary.add_step(
        step_entry(step, clock, clock + seconds, seconds * 0.8, seconds * 0.2, seconds * 0.1, 40), 12);
    clock += seconds;
    EXPECT_EQ(point.samples, 12 * step);
    EXPECT_DOUBLE_EQ(point.loss, 0.5);
    EXPECT_DOUBLE_EQ(point.seconds, clock - 50);
    EXPECT_DOUBLE_EQ(summary.last_step_seconds(), seconds);
  }
  RunResult result;
  summary.write(result);
  ASSERT_TRUE(result.step_seconds);
  EXPECT_DOUBLE_EQ(result.step_seconds->median, 5.5);
  EXPECT_DOUBLE_EQ(result.step_seconds->p10, 1.9);
  EXPECT_DOUBLE_EQ(result.step_seconds->p90, 9.1);
  EXPECT_DOUBLE_EQ(*result.samples_per_second, 120 / 55.0);
  EXPECT_DOUBLE_EQ(*result.epoch_seconds, 100 / (120 / 55.0));
  ASSERT_EQ(result.busy_share.size(), 2u);
  EXPECT_NEAR(result.busy_share[0], 0.8, 1e-12);
  EXPECT_NEAR(result.busy_share[1], 0.4, 1e-12);
  EXPECT_NEAR(*result.exposed_communication, 0.2, 1e-12);
  EXPECT_NEAR(*result.hidden_communication, 0.1, 1e-12);
  EXPECT_EQ(*result.bytes_per_step, 40);
  EXPECT_EQ(result.curve.size(), 11u);
  EXPECT_DOUBLE_EQ(summary.training_seconds(), 155);
}

/// A pause of the machine says nothing about a plan, so throughput and epoch time follow from the median step time.
TEST(Summary, ThroughputFollowsFromTheMedianStep) {
  Experiment experiment;
  Summary summary(experiment, kGoal, 2, 100, 10, 2);
  double clock = 0;
  for (int64_t step = 1; step <= 5; ++step) {
    const double seconds = step == 3 ? 1000 : 2;
    summary.add_step(step_entry(step, clock, clock + seconds, 1, 0), step == 5 ? 5 : 10);  // the last step is short
    clock += seconds;
  }
  RunResult result;
  summary.write(result);
  EXPECT_DOUBLE_EQ(result.step_seconds->median, 2);
  EXPECT_DOUBLE_EQ(*result.samples_per_second, 9 / 2.0);
  EXPECT_DOUBLE_EQ(*result.epoch_seconds, 100 / 4.5);
}

/// The first steps of replicas take long in real time, and some of the others exchange.
TEST(Summary, ReplicasLeaveTheirFirstStepsOutInRealTime) {
  Experiment experiment;
  experiment.batch = 10;
  for (const bool modelled : {false, true}) {
    SCOPED_TRACE(modelled);
    if (modelled) experiment.replicas.clock.emplace();
    Summary summary(experiment, kGoal, 2, 120, 10, 6, /*replicas=*/2);
    for (int64_t step = 1; step <= 6; ++step)
      for (int replica = 0; replica < 2; ++replica) {
        const double seconds = step == 1 ? 100 : step % 2 == 0 ? 1 : 3;
        const double end = step == 1 ? 100 : 100 + 2 * double(step - 1) - (step % 2 == 0 ? 1 : 0);
        StepRecord entry{.step = step, .outcomes = {outcome(end - seconds, end, 1)}, .replica = replica, .samples = 5};
        summary.add_step(entry, 5);
      }
    RunResult result;
    HubCounts counts;
    counts.compute_seconds = 1;
    summary.write(std::vector{counts, counts}, result);
    ASSERT_TRUE(result.step_seconds && result.samples_per_second);
    EXPECT_EQ(result.measured_steps.size(), modelled ? 12u : 8u);  // two of six are left out
    EXPECT_DOUBLE_EQ(result.step_seconds->mean.value(), modelled ? 109.0 / 6 : 2.0);
    EXPECT_DOUBLE_EQ(*result.samples_per_second, modelled ? 60 / 109.0 : 40 / 8.0);
    EXPECT_EQ(step_beside_prediction(result), result.step_seconds->mean);
  }
}

/// Steps of workers overlap: a step lasts from the end of the one before, without the time of evaluations.
TEST(Summary, StepSecondsLeaveEvaluationsOut) {
  Experiment experiment;
  Summary summary(experiment, kGoal, 2, 100, 10, 2);
  summary.add_step(step_entry(1, 0, 2, 1, 0), 10);
  EXPECT_DOUBLE_EQ(summary.add_step(step_entry(2, 1.5, 3, 1, 0), 10)->seconds, 3);
  StepRecord evaluation{true, 2, {outcome(3, 9, 20), outcome(3, 9, 0)}};
  evaluation.outcomes[0].metrics["correct"] = 4;
  EvaluationPoint point = summary.add_evaluation(evaluation);
  EXPECT_EQ(point.step, 2);
  EXPECT_EQ(point.samples, 20);
  EXPECT_DOUBLE_EQ(point.epoch, 0.2);
  EXPECT_DOUBLE_EQ(point.seconds, 3);
  EXPECT_DOUBLE_EQ(point.loss, 2);
  ASSERT_EQ(point.metrics.size(), 1u);
  EXPECT_EQ(point.main()->name, "accuracy");
  EXPECT_DOUBLE_EQ(point.main()->value, 0.4);
  EXPECT_DOUBLE_EQ(summary.add_step(step_entry(3, 10, 11, 1, 0), 10)->seconds, 4);
}

TEST(Summary, NothingMeasuredIsNothing) {
  Experiment experiment;
  RunResult result;
  Summary(experiment, kGoal, 2, 100, 10, 100).write(result);
  EXPECT_FALSE(result.step_seconds || result.samples_per_second || result.epoch_seconds || result.test ||
               result.to_target || result.bytes_per_step || result.exposed_communication || result.timeline);
  EXPECT_TRUE(result.busy_share.empty());
}

TEST(Summary, TargetIsTheFirstEvaluationThatReachesIt) {
  Experiment experiment;
  experiment.target = 0.5;
  Summary summary(experiment, kGoal, 2, 100, 10, 2);
  double clock = 0;
  for (int64_t step = 1; step <= 4; ++step, clock += 1) {
    summary.add_step(step_entry(step, clock, clock + 1, 1, 0), 25);
    StepRecord evaluation{true, step, {outcome(clock, clock, 1), outcome(clock, clock, 1)}};
    evaluation.outcomes[0].metrics["correct"] = step == 1 ? 4 : step == 3 ? 3 : 5;
    summary.add_evaluation(evaluation);
  }
  RunResult result;
  summary.write(result);
  ASSERT_TRUE(result.to_target);
  EXPECT_EQ(result.to_target->steps, 2);
  EXPECT_DOUBLE_EQ(result.to_target->epochs, 0.5);
  EXPECT_DOUBLE_EQ(result.to_target->seconds, 2);
  EXPECT_EQ(result.test->step, 4);
  experiment.target = 0.9;
  RunResult missed;
  summary.write(missed);
  EXPECT_FALSE(missed.to_target);
}

TEST(Summary, NoTargetIsReachedWithALossThatIsNoNumber) {
  Experiment experiment;
  experiment.target = 0.5;
  Summary summary(experiment, kGoal, 1, 100, 10, 1);
  summary.add_step(step_entry(1, 0, 1, 1, 0), 25);
  StepRecord evaluation{true, 1, {outcome(1, 2, std::nan(""))}};
  evaluation.outcomes[0].metrics["correct"] = 10;
  summary.add_evaluation(evaluation);
  RunResult result;
  summary.write(result);
  EXPECT_FALSE(result.to_target);
}

TEST(Summary, TargetsOfMetricsThatFallAreReachedFromAbove) {
  Experiment experiment;
  experiment.target = 10;
  Summary summary(experiment, {LearningTask::language, 50}, 2, 100, 10, 2);
  for (int64_t step = 1; step <= 3; ++step) {
    summary.add_step(step_entry(step, double(step), double(step) + 1, 1, 0), 25);
    const double loss = step == 1 ? 25 : 20;  // for ten samples: perplexities of 12.2 and 7.4
    summary.add_evaluation({true, step, {outcome(0, 0, loss), outcome(0, 0, 0)}});
  }
  RunResult result;
  summary.write(result);
  EXPECT_EQ(result.test->main()->name, "perplexity");
  EXPECT_DOUBLE_EQ(result.test->main()->value, std::exp(2.0));
  ASSERT_TRUE(result.to_target);
  EXPECT_EQ(result.to_target->steps, 2);
  EXPECT_EQ(result.target, 10);
}

TEST(Summary, DevicesOfReplicasWithSeveralWorkers) {
  Experiment experiment;
  Summary summary(experiment, kGoal, 2, 100, 10, 2, /*replicas=*/2);
  for (const int replica : {0, 1}) {
    StepRecord entry{.step = 1, .outcomes = {outcome(0, 10, 5)}, .replica = replica, .samples = 5};
    summary.add_step(entry, 5);
  }
  std::vector<HubCounts> counts(2);
  for (HubCounts& one : counts) {
    one.bytes_sent = 60;
    one.compute_seconds = 8;
    one.exchange_seconds = 1;
  }
  const std::vector<InnerWork> inner = {{4, 2, 100}, {6, 1, 200}, {7, 0, 0}, {2, 1, 100}};
  RunResult result;
  summary.write(counts, result, inner);
  EXPECT_THAT(result.busy_share, ::testing::ElementsAre(0.4, 0.6, 0.7, 0.2));
  EXPECT_DOUBLE_EQ(*result.exposed_communication, 0.1 + 0.1);
  EXPECT_EQ(*result.bytes_per_step, (100 + 200 + 100 + 2 * 60) / 4);
  EXPECT_EQ(result.replicas->bytes, 120);
}

TEST(Summary, LoadingIsNotComputing) {
  Experiment experiment;
  Summary summary(experiment, kGoal, 2, 100, 10, 2);
  StepRecord entry = step_entry(1, 0, 10, 8, 0);  // computing with loading: 8 s on the first device, 4 s on the second
  entry.load_seconds = {2, 4};
  summary.add_step(entry, 10);
  RunResult result;
  summary.write(result);
  EXPECT_DOUBLE_EQ(*result.loading_share, 0.3);
  EXPECT_DOUBLE_EQ(result.busy_share[0], 0.6);
  EXPECT_DOUBLE_EQ(result.busy_share[1], 0);
}

TEST(Summary, TimelineCountsFromTheStepsStart) {
  Experiment experiment;
  Summary summary(experiment, kGoal, 2, 100, 10, 1);
  StepRecord entry = step_entry(1, 100, 101, 1, 0);
  entry.outcomes[1].begin = 100.25;
  entry.outcomes[0].events = {{0, EventKind::forward, "forward", 0, 100.5, 100.75, 0}};
  entry.outcomes[1].events = {{1, EventKind::forward, "forward", 0, 100.25, 100.5, 0}};
  summary.add_step(entry, 10);
  RunResult result;
  summary.write(result);
  ASSERT_TRUE(result.timeline);
  EXPECT_EQ(result.timeline->workers, 2);
  ASSERT_EQ(result.timeline->events.size(), 2u);
  EXPECT_DOUBLE_EQ(result.timeline->events[0].begin, 0.5);
  EXPECT_DOUBLE_EQ(result.timeline->events[1].begin, 0.25);
}

RunResult row(const std::string& strategy, int devices, double rate,
              const std::vector<std::pair<int64_t, double>>& evaluations) {
  RunResult r;
  r.strategy = strategy;
  r.devices = devices;
  r.samples_per_second = rate;
  for (const auto& [samples, seconds] : evaluations) {
    EvaluationPoint point;
    point.samples = samples;
    point.seconds = seconds;
    r.evaluations.push_back(point);
  }
  return r;
}

TEST(CompleteComparison, EqualSamplesEqualTimeAndEfficiency) {
  ExperimentResult result;
  result.rows = {row("single", 1, 100, {{10, 1}, {20, 2}, {30, 3}}),
                 row("data", 2, 180, {{10, 0.5}, {20, 1}, {30, 1.5}}), row("tensor", 4, 50, {{10, 4}}),
                 row("pipeline", 2, 60, {})};
  result.rows[2].status = RunStatus::timed_out;
  result.rows[3].status = RunStatus::failed;
  result.rows[3].samples_per_second.reset();
  for (int times = 0; times < 2; ++times) {  // a second call changes nothing
    complete_comparison(result);
    EXPECT_DOUBLE_EQ(*result.rows[0].scaling_efficiency, 1);
    EXPECT_DOUBLE_EQ(*result.rows[1].scaling_efficiency, 0.9);
    EXPECT_DOUBLE_EQ(*result.rows[2].scaling_efficiency, 0.125);
    EXPECT_FALSE(result.rows[3].scaling_efficiency);
    EXPECT_EQ(result.rows[0].test_at_equal_samples->samples, 10);  // the timed-out row has no more
    EXPECT_EQ(result.rows[0].test_at_equal_time->samples, 10);     // "data" ended after 1.5 s
    EXPECT_EQ(result.rows[1].test_at_equal_time->samples, 30);
    EXPECT_EQ(result.rows[2].test_at_equal_samples->samples, 10);
    EXPECT_FALSE(result.rows[2].test_at_equal_time);
    EXPECT_FALSE(result.rows[3].test_at_equal_samples);
  }
}

TEST(CompleteComparison, TimesOfTheModelledClockAreComparedAmongThemselves) {
  ExperimentResult result;
  result.rows = {row("single", 1, 100, {{10, 1}, {20, 2}}), row("local-sgd", 2, 9000, {{10, 0.01}, {20, 0.02}}),
                 row("async-average", 2, 9000, {{10, 0.005}, {20, 0.025}})};
  for (size_t i : {1, 2}) result.rows[i].replicas = ReplicaReport{.replicas = 2, .clock = "modelled"};
  for (RunResult& each : result.rows) each.epoch_seconds = 3600;
  result.price_per_hour = 3;
  complete_comparison(result);
  EXPECT_EQ(result.rows[0].test_at_equal_time->samples, 20) << "no other row is in real time";
  EXPECT_EQ(result.rows[1].test_at_equal_time->samples, 20);
  EXPECT_EQ(result.rows[2].test_at_equal_time->samples, 10);
  EXPECT_TRUE(result.rows[0].scaling_efficiency);
  EXPECT_FALSE(result.rows[1].scaling_efficiency);
  EXPECT_DOUBLE_EQ(*result.rows[0].price_per_epoch, 3);
  EXPECT_FALSE(result.rows[1].price_per_epoch);
}

TEST(CompleteComparison, PricesAreOfTheMachinesHour) {
  ExperimentResult result;
  result.rows = {row("single", 1, 100, {{10, 1}}), row("data", 2, 180, {{10, 0.5}})};
  result.rows[0].epoch_seconds = 90;
  result.rows[1].to_target = ToTarget{.steps = 7, .epochs = 2, .seconds = 1800};
  complete_comparison(result);
  EXPECT_FALSE(result.rows[0].price_per_epoch);
  result.price_per_hour = 3;
  complete_comparison(result);
  EXPECT_DOUBLE_EQ(*result.rows[0].price_per_epoch, 0.075);
  EXPECT_FALSE(result.rows[0].price_to_target);
  EXPECT_DOUBLE_EQ(*result.rows[1].price_to_target, 1.5);
}

TEST(CompleteComparison, WithBatchesPerDeviceTheFewestDevicesAreTheBase) {
  ExperimentResult result;
  result.rows = {row("data", 4, 300, {{10, 0.5}}), row("tensor", 2, 150, {{10, 1}}), row("data", 2, 200, {{10, 0.7}})};
  complete_comparison(result);
  EXPECT_FALSE(result.rows[0].scaling_efficiency) << "one global batch, and no single device";
  for (RunResult& each : result.rows) each.batch = 32 * each.devices;
  for (int times = 0; times < 2; ++times) {
    complete_comparison(result);
    EXPECT_EQ(scaling_base(result, "real"), &result.rows[2]);
    EXPECT_EQ(scaling_base(result, "modelled"), nullptr);
    EXPECT_DOUBLE_EQ(*result.rows[0].scaling_efficiency, 0.75);
    EXPECT_DOUBLE_EQ(*result.rows[1].scaling_efficiency, 0.75);
    EXPECT_DOUBLE_EQ(*result.rows[2].scaling_efficiency, 1);
  }
  result.rows.push_back(row("single", 1, 80, {{10, 2}}));
  result.rows.back().batch = 32;
  complete_comparison(result);
  EXPECT_EQ(scaling_base(result, "real"), &result.rows[3]);
  EXPECT_DOUBLE_EQ(*result.rows[0].scaling_efficiency, 300.0 / 4 / 80);
}

TEST(CompleteComparison, WithoutSingleThereIsNoEfficiency) {
  ExperimentResult result;
  result.rows = {row("data", 2, 180, {{10, 0.5}}), row("single", 1, 100, {{10, 1}})};
  result.rows[1].status = RunStatus::failed;
  complete_comparison(result);
  EXPECT_FALSE(result.rows[0].scaling_efficiency);
}

}  // namespace
}  // namespace trireme
