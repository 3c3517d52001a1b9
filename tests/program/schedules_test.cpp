// The schedules' lists against what is published of them: orders, counts, micro-batches in flight, versions of the
// weights, and times on a small clock that knows only what a task has to wait for.
#include "schedule/kinds.h"

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "../base/expect_error.h"
#include "schedule_clock.h"

namespace trireme {
namespace {

/// "F0 B0' U": forward of micro-batch 0, backward (b: of the inputs, w: of the weights) of micro-batch 0 one batch ago,
/// update; "F0+": in the worker's second stage.
std::string text_of(const Schedule& schedule, const PipelinePlace& place) {
  std::string text;
  for (const Task& task : schedule.tasks(place)) {
    if (!text.empty()) text += ' ';
    text += "FBbwU"[int(task.kind)];
    if (task.kind != TaskKind::update) text += std::to_string(task.micro_batch);
    text += std::string(size_t(task.chunk), '+') + std::string(size_t(task.lag), '\'');
  }
  return text;
}

bool fits(const Schedule& schedule, const PipelinePlace& place) { return schedule.misfit(place).why.empty(); }

/// Calls `f` for every position of every small pipeline that can run the schedule.
void for_each_place(const Schedule& schedule, const std::function<void(const PipelinePlace&)>& f) {
  int places = 0;
  for (int p = 1; p <= 6; ++p)
    for (int v = 1; v <= 3; ++v)
      for (int m = 1; m <= 18; ++m)
        for (int s = 0; s < p; ++s) {
          const PipelinePlace place{s, p, v, m};
          if (!fits(schedule, place)) continue;
          SCOPED_TRACE(::testing::Message() << schedule.name << " s=" << s << " p=" << p << " v=" << v << " m=" << m);
          f(place);
          ++places;
        }
  EXPECT_GE(places, 6 * 7 / 2);
}

/// The most micro-batches whose forward is done and whose `closes` is not.
int most_in_flight(const std::vector<Deed>& deeds, TaskKind closes) {
  int now = 0, most = 0;
  for (const Deed& deed : deeds) {
    if (deed.task.kind == TaskKind::forward) most = std::max(most, ++now);
    if (deed.task.kind == closes) --now;
  }
  return most;
}

const StageTime kTwice{1, 1, 1};  // a whole backward takes twice the forward

// --- Lists
// --------------------------------------------------------------------------------------------------------------

TEST(Schedules, DoEveryMicroBatchOnce) {
  for (const Schedule& schedule : known_schedules()) {
    const bool splits = schedule.name == "zero-bubble";
    for_each_place(schedule, [&](const PipelinePlace& place) {
      std::map<std::tuple<TaskKind, int, int>, int> times_done;
      for (const Task& task : schedule.tasks(place)) ++times_done[{task.kind, task.chunk, task.micro_batch}];
      std::map<std::tuple<TaskKind, int, int>, int> expected = {{{TaskKind::update, 0, -1}, 1}};
      for (int c = 0; c < place.chunks; ++c)
        for (int k = 0; k < place.micro_batches; ++k) {
          expected[{TaskKind::forward, c, k}] = 1;
          if (!splits) expected[{TaskKind::backward, c, k}] = 1;
          if (splits) expected[{TaskKind::backward_input, c, k}] = expected[{TaskKind::backward_weight, c, k}] = 1;
        }
      EXPECT_EQ(times_done, expected);
    });
  }
}

TEST(Schedules, UpdateOnceAllGradientsOfABatchAreThereAndBatchByBatch) {
  for (const Schedule& schedule : known_schedules())
    for_each_place(schedule, [&](const PipelinePlace& place) {
      std::map<int, int> gradients;  // by batch
      int updates = 0;
      for (const Deed& deed : deeds_of(schedule, place, 12)) {
        if (deed.task.kind == TaskKind::backward || deed.task.kind == TaskKind::backward_weight)
          ++gradients[deed.batch];
        if (deed.task.kind != TaskKind::update) continue;
        EXPECT_EQ(deed.batch, updates++);
        EXPECT_EQ(gradients[deed.batch], place.micro_batches * place.chunks);
      }
      EXPECT_GE(updates, 12 - (place.depth - 1));
    });
}

TEST(Schedules, FlushEveryBatchWhereTheySaySo) {
  std::set<std::string_view> flushing;
  for (const Schedule& schedule : known_schedules()) {
    if (!schedule.flushes) continue;
    flushing.insert(schedule.name);
    EXPECT_EQ(schedule.delay, nullptr);
    for_each_place(schedule, [&](const PipelinePlace& place) {
      const std::vector<Task> tasks = schedule.tasks(place);
      EXPECT_EQ(tasks.back(), (Task{TaskKind::update, 0, -1, 0}));
      for (const Task& task : tasks) EXPECT_EQ(task.lag, 0);
    });
  }
  EXPECT_EQ(flushing, (std::set<std::string_view>{"gpipe", "1f1b", "interleaved", "zero-bubble"}));
}

std::vector<std::string> texts_of(const Schedule& schedule, int depth, int chunks, int micro_batches) {
  std::vector<std::string> texts;
  for (int s = 0; s < depth; ++s) texts.push_back(text_of(schedule, {s, depth, chunks, micro_batches}));
  return texts;
}

TEST(Gpipe, GoesThroughItsStagesAndBack) {
  EXPECT_EQ(text_of(kGpipe, {1, 3, 1, 3}), "F0 F1 F2 B2 B1 B0 U");
  EXPECT_EQ(text_of(kGpipe, {0, 2, 2, 2}), "F0 F1 F0+ F1+ B1+ B0+ B1 B0 U");
}

TEST(Gpipe, KeepsTorchgpipesClock) {
  // torchgpipe's clock_cycles(m, n): per clock the (micro-batch, partition) pairs that run forward; backward runs them
  // in reverse.
  using Cycles = std::vector<std::vector<std::pair<int, int>>>;
  const std::vector<std::tuple<int, int, Cycles>> published = {
      {1, 1, {{{0, 0}}}},
      {1, 3, {{{0, 0}}, {{0, 1}}, {{0, 2}}}},
      {3, 1, {{{0, 0}}, {{1, 0}}, {{2, 0}}}},
      {3, 3, {{{0, 0}}, {{1, 0}, {0, 1}}, {{2, 0}, {1, 1}, {0, 2}}, {{2, 1}, {1, 2}}, {{2, 2}}}},
      {4, 2, {{{0, 0}}, {{1, 0}, {0, 1}}, {{2, 0}, {1, 1}}, {{3, 0}, {2, 1}}, {{3, 1}}}}};
  for (const auto& [m, p, cycles] : published) {
    const Clock clock(kGpipe, p, 1, m, 1, {StageTime{1, 1, 0}});
    const int64_t turn = int64_t(cycles.size());
    Cycles forward(cycles.size()), backward(cycles.size());
    for (int s = p - 1; s >= 0; --s)
      for (const TimedDeed& event : clock.events(s)) {
        if (event.deed.task.kind == TaskKind::update) continue;
        ASSERT_LT(event.start, 2 * turn);
        const bool turned = event.start >= turn;
        auto& cycle = turned ? backward[size_t(2 * turn - 1 - event.start)] : forward[size_t(event.start)];
        cycle.insert(cycle.begin(), {event.deed.task.micro_batch, s});
      }
    EXPECT_EQ(forward, cycles);
    EXPECT_EQ(backward, cycles);
  }
}

TEST(OneForwardOneBackward, OrdersAsPublished) {
  // PipeDream-Flush, p = 4, m = 8.
  const std::vector<std::string> published = {
      "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7 U", "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7 U",
      "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7 U", "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7 U"};
  EXPECT_EQ(texts_of(kOneForwardOneBackward, 4, 1, 8), published);
  EXPECT_EQ(text_of(kOneForwardOneBackward, {0, 1, 1, 3}), "F0 B0 F1 B1 F2 B2 U");
  EXPECT_EQ(text_of(kOneForwardOneBackward, {0, 4, 1, 2}), "F0 F1 B0 B1 U");
}

TEST(Interleaved, OrdersAsPublished) {
  // Megatron-LM, p = 4, v = 2, m = 8.
  const std::vector<std::string> published = {
      "F0 F1 F2 F3 F0+ F1+ F2+ F3+ F4 F5 F6 B0+ F7 B1+ F4+ B2+ F5+ B3+ F6+ B0 F7+ B1 "
      "B2 B3 B4+ B5+ B6+ B7+ B4 B5 B6 B7 U",
      "F0 F1 F2 F3 F0+ F1+ F2+ F3+ F4 B0+ F5 B1+ F6 B2+ F7 B3+ F4+ B0 F5+ B1 F6+ B2 F7+ B3 "
      "B4+ B5+ B6+ B7+ B4 B5 B6 B7 U",
      "F0 F1 F2 F3 F0+ F1+ F2+ B0+ F3+ B1+ F4 B2+ F5 B3+ F6 B0 F7 B1 F4+ B2 F5+ B3 F6+ B4+ F7+ B5+ "
      "B6+ B7+ B4 B5 B6 B7 U",
      "F0 F1 F2 F3 F0+ B0+ F1+ B1+ F2+ B2+ F3+ B3+ F4 B0 F5 B1 F6 B2 F7 B3 F4+ B4+ F5+ B5+ F6+ B6+ F7+ B7+ "
      "B4 B5 B6 B7 U"};
  EXPECT_EQ(texts_of(kInterleaved, 4, 2, 8), published);
  // As many micro-batches as positions: all forwards first.
  EXPECT_EQ(text_of(kInterleaved, {1, 2, 2, 2}), "F0 F1 F0+ F1+ B0+ B1+ B0 B1 U");
}

TEST(ZeroBubble, PutsWeightGradientsOffByThePosition) {
  const std::vector<std::string> expected = {"F0 F1 F2 b0 w0 F3 b1 w1 b2 w2 b3 w3 U",
                                             "F0 F1 b0 F2 b1 w0 F3 b2 w1 b3 w2 w3 U",
                                             "F0 b0 F1 b1 F2 b2 w0 F3 b3 w1 w2 w3 U"};
  EXPECT_EQ(texts_of(kZeroBubble, 3, 1, 4), expected);
  EXPECT_EQ(text_of(kZeroBubble, {3, 4, 1, 2}), "F0 b0 F1 b1 w0 w1 U");
}

TEST(Pipedream, RepeatsOneForwardOneBackwardAndOneUpdate) {
  const std::vector<std::string> expected = {"F0 B0''' U'''", "F0 B0'' U''", "F0 B0' U'", "F0 B0 U"};
  EXPECT_EQ(texts_of(kPipedream, 4, 1, 1), expected);
  // From the start on, as in the paper's figure: three forwards before the first backward.
  std::string text;
  for (const Deed& deed : deeds_of(kPipedream, {1, 4, 1, 1}, 5))
    if (deed.task.kind != TaskKind::update) {
      text += "FB"[int(deed.task.kind)];
      text += std::to_string(deed.batch);
    }
  EXPECT_EQ(text, "F0F1F2B0F3B1F4B2");
}

TEST(TwoBufferedWeights, UpdatesBehindTheLastBackwardOfABatch) {
  const std::vector<std::string> expected = {"F0 B2' F1 B3' U' F2 B0 F3 B1", "F0 B3' U' F1 B0 F2 B1 F3 B2",
                                             "F0 B0 F1 B1 F2 B2 F3 B3 U"};
  EXPECT_EQ(texts_of(kTwoBufferedWeights, 3, 1, 4), expected);
  EXPECT_EQ(text_of(kTwoBufferedWeights, {0, 2, 1, 2}), "F0 B1' U' F1 B0");
  EXPECT_EQ(text_of(kTwoBufferedWeights, {0, 1, 1, 2}), "F0 B0 F1 B1 U");
}

// --- Memory
// -------------------------------------------------------------------------------------------------------------

TEST(Schedules, KeepAsManyMicroBatchesInFlightAsPublished) {
  const auto at_most = [](const Schedule& schedule, const PipelinePlace& place) {
    const bool splits = schedule.name == "zero-bubble";
    return most_in_flight(deeds_of(schedule, place, 15), splits ? TaskKind::backward_input : TaskKind::backward);
  };
  for_each_place(kGpipe,
                 [&](const PipelinePlace& at) { EXPECT_EQ(at_most(kGpipe, at), at.micro_batches * at.chunks); });
  for (const Schedule* schedule : {&kOneForwardOneBackward, &kZeroBubble})
    for_each_place(*schedule, [&](const PipelinePlace& at) {
      EXPECT_EQ(at_most(*schedule, at), std::min(at.micro_batches, at.depth - at.position));
    });
  for (const Schedule* schedule : {&kPipedream, &kTwoBufferedWeights})
    for_each_place(*schedule,
                   [&](const PipelinePlace& at) { EXPECT_EQ(at_most(*schedule, at), at.depth - at.position); });
  const std::vector<int> interleaved = {11, 9, 7, 5};  // p = 4, v = 2, m = 8
  for (int s = 0; s < 4; ++s) EXPECT_EQ(at_most(kInterleaved, {s, 4, 2, 8}), interleaved[size_t(s)]);
}

TEST(Schedules, AreInFlightAsTheSchedulesFormulaStates) {
  for (const Schedule& schedule : known_schedules()) {
    if (!schedule.in_flight) continue;
    const TaskKind closes = schedule.splits_backward ? TaskKind::backward_weight : TaskKind::backward;
    for_each_place(schedule, [&](const PipelinePlace& at) {
      if (at.chunks > 1 && !schedule.chunked) return;
      EXPECT_EQ(schedule.in_flight(at, at.depth * at.chunks - at.position),
                most_in_flight(deeds_of(schedule, at, 1), closes))
          << schedule.name;
    });
  }
}

TEST(ZeroBubble, KeepsNoMoreUntilTheWeightGradientThanTheFirstPositionOf1f1b) {
  for_each_place(kZeroBubble, [&](const PipelinePlace& at) {
    EXPECT_EQ(most_in_flight(deeds_of(kZeroBubble, at, 2), TaskKind::backward_weight),
              std::min(at.micro_batches, at.depth));
  });
}

/// Goes through a worker's tasks: batch t must find the version max(0, t - delay) made, and at most `versions` are
/// alive, from it to the newest.
void expect_versions(const Schedule& schedule, const PipelinePlace& place, int delay, int versions) {
  int newest = 0, most = 0;
  for (const Deed& deed : deeds_of(schedule, place, 15)) {
    if (deed.task.kind == TaskKind::update) {
      ++newest;
      continue;
    }
    const int used = std::max(0, deed.batch - delay);
    EXPECT_LE(used, newest);
    most = std::max(most, newest - used + 1);
  }
  EXPECT_EQ(most, versions);
}

TEST(Schedules, FindTheVersionOfTheWeightsThatTheyPromise) {
  for (const Schedule& schedule : known_schedules())
    for_each_place(schedule, [&](const PipelinePlace& at) {
      if (schedule.flushes) return expect_versions(schedule, at, 0, 1);
      const int own = schedule.name == "2bw" ? 1 : at.depth - 1 - at.position;
      const int first = schedule.name == "2bw" ? 1 : at.depth - 1;
      EXPECT_EQ(schedule.delay(at, false), own);
      EXPECT_EQ(schedule.delay(at, true), first);
      expect_versions(schedule, at, own, own + 1);
      expect_versions(schedule, at, first, first + 1);
    });
}

TEST(Pipedream, ForwardTakesTheNewestVersion) {
  for_each_place(kPipedream, [&](const PipelinePlace& place) {
    int newest = 0;
    for (const Deed& deed : deeds_of(kPipedream, place, 15)) {
      newest += deed.task.kind == TaskKind::update;
      if (deed.task.kind != TaskKind::forward) continue;
      EXPECT_EQ(newest, std::max(0, deed.batch - kPipedream.delay(place, false)));
    }
  });
}

// --- Time
// ---------------------------------------------------------------------------------------------------------------

TEST(Schedules, TakeThePublishedTimeWithEqualStages) {
  for (int p = 1; p <= 6; ++p)
    for (int m : {1, 2, 3, 4, 5, 6, 8, 12, 24}) {
      SCOPED_TRACE(::testing::Message() << "p=" << p << " m=" << m);
      EXPECT_EQ(Clock(kGpipe, p, 1, m, 1, {kTwice}).time(), (m + p - 1) * 3);
      EXPECT_EQ(Clock(kOneForwardOneBackward, p, 1, m, 1, {kTwice}).time(), (m + p - 1) * 3);
      for (int v : {2, 3, 4}) {
        if (!fits(kInterleaved, {0, p, v, m})) continue;
        // A stage takes 1/v of the time, so m v of them are one worker's work and a share (p - 1)/(v m + p - 1) is
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

/// When position 0 has made update number `update`.
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
    EXPECT_EQ(time_of_update(batches, 39) - time_of_update(batches, 19), 20 * m * slowest);
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
    for (int g = 0; g < p * v; ++g) times.push_back({draw(1, 9), draw(1, 9), draw(0, 9)});
    for (const Schedule& schedule : known_schedules()) {
      const bool whole = schedule.name == "pipedream";  // one micro-batch only
      const int chunks = schedule.name == "gpipe" || schedule.name == "interleaved" ? v : 1;
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

// --- Misfits
// ------------------------------------------------------------------------------------------------------------

struct MisfitCase {
  std::string_view schedule;
  PipelinePlace place;
  std::string why, next;
};

TEST(Schedules, SayWhyAPipelineDoesNotFitAndWhatToDo) {
  const std::vector<MisfitCase> cases = {
      {"1f1b",
       {0, 2, 3, 4},
       "it runs one stage per worker, but the plan has 3",
       "give every worker one stage or use schedule \"interleaved\""},
      {"zero-bubble",
       {0, 2, 2, 4},
       "it runs one stage per worker, but the plan has 2",
       "give every worker one stage or use schedule \"interleaved\""},
      {"interleaved",
       {0, 4, 1, 8},
       "it needs at least two stages per worker",
       "with one stage per worker use schedule \"1f1b\""},
      {"interleaved",
       {0, 4, 2, 6},
       "6 micro-batches are not a multiple of the pipeline's depth 4",
       "use 4 or 8 micro-batches"},
      {"interleaved",
       {0, 4, 2, 3},
       "3 micro-batches are not a multiple of the pipeline's depth 4",
       "use 4 micro-batches"},
      {"pipedream",
       {0, 4, 1, 4},
       "every mini-batch has its own update and is not cut, but the plan has 4 micro-batches",
       "use 1 micro-batch, or schedule \"2bw\", which has one update for all of them"},
      {"pipedream",
       {0, 2, 2, 1},
       "it runs one stage per worker, but the plan has 2",
       "give every worker one stage or use schedule \"interleaved\""},
      {"2bw",
       {0, 4, 1, 3},
       "3 micro-batches are fewer than the pipeline's depth 4, so two versions of the weights are not enough",
       "use at least 4 micro-batches or schedule \"1f1b\""},
      {"2bw",
       {0, 2, 2, 4},
       "it runs one stage per worker, but the plan has 2",
       "give every worker one stage or use schedule \"interleaved\""}};
  for (const MisfitCase& c : cases) {
    const Schedule::Misfit misfit = find_schedule(c.schedule, "plan").misfit(c.place);
    EXPECT_EQ(misfit.why, c.why) << c.schedule;
    EXPECT_EQ(misfit.next, c.next) << c.schedule;
  }
}

TEST(Schedules, HaveNothingToSayWhereThePipelineFits) {
  const std::vector<std::pair<std::string_view, PipelinePlace>> cases = {
      {"gpipe", {0, 4, 3, 1}},       {"1f1b", {0, 4, 1, 1}},        {"interleaved", {0, 4, 2, 8}},
      {"interleaved", {0, 4, 3, 4}}, {"zero-bubble", {0, 4, 1, 2}}, {"pipedream", {0, 4, 1, 1}},
      {"2bw", {0, 4, 1, 4}},         {"2bw", {0, 1, 1, 1}}};
  for (const auto& [name, place] : cases) {
    const Schedule::Misfit misfit = find_schedule(name, "plan").misfit(place);
    EXPECT_EQ(misfit.why, "") << name;
    EXPECT_EQ(misfit.next, "") << name;
  }
}

TEST(Schedules, AreFoundByName) {
  std::vector<std::string_view> names;
  for (const Schedule& schedule : known_schedules()) {
    names.push_back(schedule.name);
    EXPECT_EQ(&find_schedule(schedule.name, "plan"), &schedule);
    EXPECT_FALSE(schedule.description.empty());
  }
  EXPECT_EQ(names, (std::vector<std::string_view>{"gpipe", "1f1b", "interleaved", "zero-bubble", "pipedream", "2bw"}));
  expect_error(Blame::user,
               {"my.plan.json", "schedule \"1f2b\"", "is not known", "did you mean \"1f1b\"?", "pipedream"},
               [] { find_schedule("1f2b", "my.plan.json"); });
  expect_error(Blame::user, {"schedule \"zigzag\"", "known are gpipe, 1f1b, interleaved, zero-bubble, pipedream, 2bw"},
               [] { find_schedule("zigzag", "plan"); });
}

TEST(Schedules, HaveRoles) {
  EXPECT_EQ(usual_schedule().name, "gpipe");
  EXPECT_EQ(lean_schedule().name, "1f1b");
  EXPECT_EQ(chunked_schedule().name, "interleaved");
  EXPECT_EQ(look_up_schedule("1f2b"), nullptr);
  EXPECT_EQ(schedule_names([](const Schedule& s) { return s.is_plain(); }),
            (std::vector<std::string>{"gpipe", "1f1b"}));
  EXPECT_EQ(schedule_names([](const Schedule& s) { return s.has_vertical_sync; }),
            std::vector<std::string>{"pipedream"});
  for (const Schedule& schedule : known_schedules()) {
    EXPECT_EQ(schedule.step_rule == nullptr, !schedule.flushes) << schedule.name;
    EXPECT_EQ(schedule.step_rule == nullptr, schedule.in_flight == nullptr) << schedule.name;
  }
}

/// The planner's formula gives the clock's time where all stages are equal.
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
      EXPECT_EQ(double(Clock(schedule, at.depth, at.chunks, at.micro_batches, 1, {kTwice}).time()),
                at.depth * fill + main)
          << schedule.name << " p=" << at.depth << " v=" << at.chunks << " m=" << at.micro_batches;
      EXPECT_LE(rule.least_weight * weights + at.micro_batches * waited_for, fill + main) << schedule.name;
    });
  }
}

}  // namespace
}  // namespace trireme
