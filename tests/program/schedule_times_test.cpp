// Times of pipeline schedules on a clock, compared with published formulas and with the planner's.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "schedule/kinds.h"
#include "schedule_clock.h"
#include "schedule_places.h"

namespace trireme {
namespace {

const StageTime kTwice{1, 1, 1};  // a whole backward takes twice the forward

TEST(Schedules, TakeThePublishedTimeWithEqualStages) {
  for (int p = 1; p <= 6; ++p)
    for (int m : {1, 2, 3, 4, 5, 6, 8, 12, 24}) {
      SCOPED_TRACE(::testing::Message() << "p=" << p << " m=" << m);
      EXPECT_EQ(Clock(kGpipe, p, 1, m, 1, {kTwice}).time(), (m + p - 1) * 3);
      EXPECT_EQ(Clock(kOneForwardOneBackward, p, 1, m, 1, {kTwice}).time(), (m + p - 1) * 3);
      for (int v : {2, 3, 4}) {
        if (!fits(kInterleaved, {0, p, v, m})) continue;
        // A stage takes 1/v of the time: a worker's work is m v stage times, and a share (p - 1)/(v m + p - 1) is
        // bubble.
        EXPECT_EQ(Clock(kInterleaved, p, v, m, 1, {kTwice}).time(), (v * m + p - 1) * 3) << "v=" << v;
      }
    }
}

TEST(ZeroBubble, TakesThePublishedTime) {
  const std::vector<StageTime> times = {{1, 1, 1}, {2, 2, 1}, {1, 2, 1}, {3, 2, 2}, {10, 12, 9}, {4, 4, 0}};
  for (const StageTime& time : times)
    for (int p = 1; p <= 6; ++p)
      for (int m : {1, 2, 3, 4, 5, 6, 8, 12, 24}) {
        SCOPED_TRACE(::testing::Message() << "p=" << p << " m=" << m << " T_W=" << time.backward_weight);
        const int64_t bubble = (p - 1) * (time.forward + time.backward_input - time.backward_weight);
        const int64_t missing = std::max(0, p - m) * time.backward_weight;  // fewer micro-batches than positions
        EXPECT_EQ(Clock(kZeroBubble, p, 1, m, 1, {time}).time(), m * time.all() + bubble + missing);
      }
}

/// The time from the end of a step to the end of the next one, after the first steps.
int64_t time_per_step(const Schedule& schedule, int depth, int chunks, int micro_batches, const StageTime& time) {
  constexpr int kFirst = 2, kSteps = 3;
  const Clock clock(schedule, depth, chunks, micro_batches, kFirst + kSteps + 1, {time});
  const int64_t all = clock.time_of(kFirst + kSteps) - clock.time_of(kFirst);
  EXPECT_EQ(all % kSteps, 0);
  return all / kSteps;
}

TEST(ZeroBubbleH2, TakesThePublishedTime) {
  const std::vector<StageTime> times = {{1, 1, 1}, {2, 2, 1}, {1, 2, 1}, {3, 2, 2}, {10, 12, 9}, {4, 4, 0}};
  for (const StageTime& time : times)
    for (int p = 1; p <= 6; ++p)
      for (int m : {1, 2, 3, 4, 5, 6, 8, 12, 24}) {
        SCOPED_TRACE(::testing::Message() << "p=" << p << " m=" << m << " T_W=" << time.backward_weight);
        const int64_t bubble = (p - 1) * (time.forward + time.backward_input - 2 * time.backward_weight);
        const int64_t missing = std::max(0, 2 * p - 1 - m) * time.backward_weight;  // too few to fill the gaps
        EXPECT_EQ(time_per_step(kZeroBubbleH2, p, 1, m, time), m * time.all() + bubble + missing);
      }
}

/// A position does all its work once a step. The last position does not end its first forward before all others, and
/// the last backward passes all positions.
int64_t least_time(int p, int m, const StageTime& time) {
  const int64_t through = time.forward + time.backward_input;
  return std::max(m * time.all(), (m + p - 1) * through + time.backward_weight);
}

TEST(ZeroBubble2p, TakesTheLeastPossibleTimeIfForwardAndBackwardAreEqual) {
  for (int64_t weight = 10; weight <= 20; ++weight)
    for (int p : {1, 2, 3, 4, 5, 6, 8, 12})
      for (int m : {4 * p, 4 * p + 1, 5 * p}) {
        SCOPED_TRACE(::testing::Message() << "p=" << p << " m=" << m << " T_W=" << weight);
        const StageTime time{20, 20, weight};
        EXPECT_EQ(time_per_step(kZeroBubble2p, p, 1, m, time), least_time(p, m, time));
      }
}

TEST(ZeroBubble2p, TakesLittleMoreWithFewMicroBatches) {
  for (int64_t weight : {10, 12, 15, 20})
    for (int p = 1; p <= 8; ++p)
      for (int m = 1; m < 4 * p; ++m) {
        const StageTime time{20, 20, weight};
        EXPECT_LE(double(time_per_step(kZeroBubble2p, p, 1, m, time)), 1.03 * double(least_time(p, m, time)))
            << "p=" << p << " m=" << m << " T_W=" << weight;
      }
}

TEST(ZeroBubble2p, IsNeverSlowerThanH2IfWeightGradientsAreTheShortest) {
  for (int64_t forward : {1, 2, 5})
    for (int64_t input : {1, 2, 5})
      for (int64_t weight = 0; weight <= std::min(forward, input); ++weight)
        for (int p = 1; p <= 5; ++p)
          for (int m : {1, 2, 3, 4, 6, 8, 12, 16, 24}) {
            const StageTime time{forward, input, weight};
            EXPECT_LE(time_per_step(kZeroBubble2p, p, 1, m, time), time_per_step(kZeroBubbleH2, p, 1, m, time))
                << "p=" << p << " m=" << m << " T=" << forward << "," << input << "," << weight;
          }
}

TEST(ZeroBubbleV, HasHalfTheBubbleOfH2IfForwardAndBackwardAreEqual) {
  for (int64_t weight : {0, 5, 10, 15, 20})
    for (int p = 1; p <= 6; ++p)
      for (int m : {2 * p - 1, 2 * p, 3 * p, 24}) {
        SCOPED_TRACE(::testing::Message() << "p=" << p << " m=" << m << " T_W=" << weight);
        const StageTime time{20, 20, weight};  // of half a worker's layers
        EXPECT_EQ(time_per_step(kZeroBubbleV, p, 2, m, time),
                  int64_t{2} * m * time.all() + (p - 1) * (40 - 2 * weight));
      }
}

TEST(ZeroBubbleV, IsFasterThanZeroBubbleInTheSameMemory) {
  for (int64_t forward : {2, 4, 10})
    for (int64_t input : {2, 4, 10})
      for (int64_t weight = 1; weight <= std::min(forward, input); ++weight)
        for (int p = 2; p <= 5; ++p)
          for (int m : {2 * p - 1, 3 * p, 16}) {
            const StageTime half{forward, input, weight}, whole{2 * forward, 2 * input, 2 * weight};
            EXPECT_LT(time_per_step(kZeroBubbleV, p, 2, m, half), time_per_step(kZeroBubble, p, 1, m, whole))
                << "p=" << p << " m=" << m << " T=" << forward << "," << input << "," << weight;
          }
}

TEST(ZeroBubble, IsFasterThan1f1bForAllTimes) {
  for (int64_t forward : {1, 2, 5})
    for (int64_t input : {1, 2, 5})
      for (int64_t weight : {1, 2, 5, 9})
        for (int p = 2; p <= 5; ++p)
          for (int m : {1, 2, 4, 7}) {
            const StageTime time{forward, input, weight};
            const int64_t unsplit = Clock(kOneForwardOneBackward, p, 1, m, 1, {time}).time();
            EXPECT_LT(Clock(kZeroBubble, p, 1, m, 1, {time}).time(), unsplit)
                << "p=" << p << " m=" << m << " T=" << forward << "," << input << "," << weight;
          }
}

TEST(Schedules, WithoutFlushHaveNoBubbleOnceFilled) {
  for (const Schedule* schedule : {&kPipedream, &kTwoBufferedWeights})
    for (int p = 1; p <= 6; ++p)
      for (int m : {1, 2, 4, 6, 9}) {
        if (!fits(*schedule, {0, p, 1, m})) continue;
        SCOPED_TRACE(::testing::Message() << schedule->name << " p=" << p << " m=" << m);
        const Clock clock(*schedule, p, 1, m, 20, {kTwice});
        ASSERT_FALSE(clock.stuck());
        for (int s = 0; s < p; ++s) {
          const auto& events = clock.events(s);
          size_t checked = 0;
          for (size_t i = 1; i < events.size(); ++i) {
            if (events[i].deed.batch < 2 * p) continue;
            EXPECT_EQ(events[i].start, events[i - 1].end) << "position " << s;
            ++checked;
          }
          EXPECT_GE(checked, size_t(2 * m));
        }
      }
}

/// The time at which position 0 has made update number `update`.
int64_t time_of_update(const Clock& clock, int update) {
  for (const TimedDeed& event : clock.events(0))
    if (event.deed.task.kind == TaskKind::update && event.deed.batch == update) return event.end;
  ADD_FAILURE() << "no update " << update;
  return 0;
}

TEST(Schedules, WithoutFlushGoAsFastAsTheSlowestStage) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 generator(seed);
  const auto draw = [&](int from, int to) { return std::uniform_int_distribution<int>(from, to)(generator); };
  for (int trial = 0; trial < 100; ++trial) {
    const int p = draw(1, 6), m = p + draw(0, 4);
    std::vector<StageTime> times;
    int64_t slowest = 0;
    for (int s = 0; s < p; ++s) {
      const int64_t forward = draw(1, 9);
      times.push_back({forward, forward, forward});
      slowest = std::max(slowest, times.back().all());
    }
    SCOPED_TRACE(::testing::Message() << "p=" << p << " m=" << m);
    const Clock one_by_one(kPipedream, p, 1, 1, 60 + p, times), batches(kTwoBufferedWeights, p, 1, m, 41, times);
    EXPECT_EQ(time_of_update(one_by_one, 59) - time_of_update(one_by_one, 39), 20 * slowest);
    EXPECT_EQ(time_of_update(batches, 39) - time_of_update(batches, 19), int64_t{20} * m * slowest);
  }
}

TEST(Schedules, NeverWaitForEachOther) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 generator(seed);
  const auto draw = [&](int from, int to) { return std::uniform_int_distribution<int>(from, to)(generator); };
  std::map<std::string_view, int> tried;
  for (int trial = 0; trial < 400; ++trial) {
    const int p = draw(1, 10), v = draw(1, 4), m = draw(0, 1) ? draw(1, 24) : p * draw(1, 3);
    std::vector<StageTime> times;
    times.reserve(size_t(p) * size_t(v));
    for (int g = 0; g < p * v; ++g) times.push_back({draw(1, 9), draw(1, 9), draw(0, 9)});
    for (const Schedule& schedule : known_schedules()) {
      const bool whole = schedule.name == "pipedream";  // allows only one micro-batch
      const int chunks = schedule.v_shaped ? 2 : schedule.name == "gpipe" || schedule.name == "interleaved" ? v : 1;
      if (!fits(schedule, {0, p, chunks, whole ? 1 : m})) continue;
      ++tried[schedule.name];
      EXPECT_FALSE(Clock(schedule, p, chunks, whole ? 1 : m, 3, times).stuck())
          << schedule.name << " p=" << p << " v=" << chunks << " m=" << m;
    }
  }
  for (const Schedule& schedule : known_schedules()) EXPECT_GE(tried[schedule.name], 20) << schedule.name;
}

TEST(Clock, GetsStuckWhereTasksWaitForEachOther) {
  Schedule crossed = kGpipe;  // position 0 waits for the backward of 0, position 1 for the forward of 1
  crossed.tasks = [](const PipelinePlace& place) -> std::vector<Task> {
    return {{TaskKind::forward, 0, place.position}, {TaskKind::backward, 0, place.position}};
  };
  EXPECT_TRUE(Clock(crossed, 2, 1, 2, 1, {kTwice}).stuck());
}

/// If all stages are equal, the planner's formula gives the clock's time from step to step.
TEST(Schedules, TakeTheTimeOfTheirStepRule) {
  for (const Schedule& schedule : known_schedules()) {
    if (!schedule.step_rule) continue;
    for_each_place(schedule, [&](const PipelinePlace& at) {
      if (at.position > 0 || (at.chunks > 1 && !schedule.chunked)) return;
      const StepRule rule = schedule.step_rule(at);
      const double waited_for = double(kTwice.forward + kTwice.backward_input),
                   weights = double(kTwice.backward_weight);
      const double fill = rule.fill_compute * waited_for + rule.fill_weight * weights,
                   main = rule.main_compute * waited_for + rule.main_weight * weights;
      EXPECT_EQ(double(time_per_step(schedule, at.depth, at.chunks, at.micro_batches, kTwice)), at.depth * fill + main)
          << schedule.name << " p=" << at.depth << " v=" << at.chunks << " m=" << at.micro_batches;
      EXPECT_LE(rule.least_weight * weights + at.micro_batches * waited_for, fill + main) << schedule.name;
    });
  }
}

}  // namespace
}  // namespace trireme
