// Compares the schedules' lists with the published ones: orders, counts, micro-batches in flight, versions of the
// weights, and the shapes that they refuse.
#include "schedule/kinds.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "../base/expect_error.h"
#include "schedule_clock.h"
#include "schedule_places.h"

namespace trireme {
namespace {

/// A worker's tasks as text. F0: forward of micro-batch 0. B0: backward; b0 and w0: its gradients of inputs and of
/// weights. U: update. B0': of the batch before. F0+: in the worker's second stage.
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

/// The most micro-batches whose forward is done and whose task `closes` is not.
int most_in_flight(const std::vector<Deed>& deeds, TaskKind closes) {
  int now = 0, most = 0;
  for (const Deed& deed : deeds) {
    if (deed.task.kind == TaskKind::forward) most = std::max(most, ++now);
    if (deed.task.kind == closes) --now;
  }
  return most;
}

// -- lists

TEST(Schedules, DoEveryMicroBatchOnce) {
  for (const Schedule& schedule : known_schedules()) {
    const bool splits = schedule.name.starts_with("zero-bubble");
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
  EXPECT_EQ(flushing, (std::set<std::string_view>{"gpipe", "1f1b", "interleaved", "zero-bubble", "zero-bubble-h2",
                                                  "zero-bubble-2p", "zero-bubble-v"}));
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
  // torchgpipe's clock_cycles(m, n): per clock, the (micro-batch, partition) pairs that run forward; backward runs them
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

TEST(ZeroBubbleH2, OrdersAsPublished) {
  // The paper's figure of ZB-H2, p = 4, m = 8.
  const std::vector<std::string> published = {
      "F0 F1 F2 F3 F4 F5 F6 b0 w0 F7 b1 w1 b2 w2 b3 w3 b4 w4 b5 w5 b6 w6 b7 w7 U",
      "F0 F1 F2 F3 F4 b0 F5 b1 F6 b2 w0 F7 b3 w1 b4 w2 b5 w3 b6 w4 b7 w5 w6 w7 U",
      "F0 F1 F2 b0 F3 b1 F4 b2 F5 b3 F6 b4 w0 F7 b5 w1 b6 w2 b7 w3 w4 w5 w6 w7 U",
      "F0 b0 F1 b1 F2 b2 F3 b3 F4 b4 F5 b5 F6 b6 w0 F7 b7 w1 w2 w3 w4 w5 w6 w7 U"};
  EXPECT_EQ(texts_of(kZeroBubbleH2, 4, 1, 8), published);
  EXPECT_EQ(text_of(kZeroBubbleH2, {0, 4, 1, 2}), "F0 F1 b0 w0 b1 w1 U");
}

TEST(ZeroBubble2p, HasNoWeightGradientsBetweenForwardsAndBackwardsWhileMemoryLasts) {
  // Until the memory is full, one F and one B in turn; the W that are left fill the gaps between the last B.
  const std::vector<std::string> expected = {"F0 F1 F2 F3 F4 b0 F5 b1 w0 w1 b2 w2 b3 w3 b4 w4 b5 w5 U",
                                             "F0 F1 F2 b0 F3 b1 F4 b2 F5 b3 w0 w1 b4 w2 b5 w3 w4 w5 U",
                                             "F0 b0 F1 b1 F2 b2 F3 b3 F4 b4 F5 b5 w0 w1 w2 w3 w4 w5 U"};
  EXPECT_EQ(texts_of(kZeroBubble2p, 3, 1, 6), expected);
  EXPECT_EQ(text_of(kZeroBubble2p, {3, 4, 1, 2}), "F0 b0 F1 b1 w0 w1 U");
}

TEST(ZeroBubbleV, ComesBackThroughTheSecondStages) {
  const std::vector<std::string> expected = {
      "F0 F1 F2 F0+ b0+ w0+ F1+ b1+ w1+ F3 b0 w0 F2+ b2+ w2+ b1 w1 F3+ b3+ w3+ b2 w2 b3 w3 U",
      "F0 F0+ F1 F1+ b0+ w0+ F2 b0 w0 F2+ b1+ w1+ F3 b1 w1 F3+ b2+ w2+ b2 b3+ b3 w2 w3+ w3 U"};
  EXPECT_EQ(texts_of(kZeroBubbleV, 2, 2, 4), expected);
  EXPECT_EQ(text_of(kZeroBubbleV, {2, 3, 2, 1}), "F0 F0+ b0+ w0+ b0 w0 U");
}

TEST(ZeroBubbleV, HasItsStagesOnTheWayThereAndBack) {
  std::vector<int> positions;
  positions.reserve(9);
  for (int stage = 0; stage < 9; ++stage) positions.push_back(kZeroBubbleV.position_of(stage, 3));
  EXPECT_EQ(positions, (std::vector<int>{0, 1, 2, 2, 1, 0, 0, 1, 2}));
  positions.clear();
  for (int stage = 0; stage < 7; ++stage) positions.push_back(kInterleaved.position_of(stage, 3));
  EXPECT_EQ(positions, (std::vector<int>{0, 1, 2, 0, 1, 2, 0}));
  for (const Schedule* schedule : {&kZeroBubbleV, &kInterleaved})
    for (int depth = 1; depth <= 5; ++depth)
      for (int chunk = 0; chunk < 3; ++chunk)
        for (int s = 0; s < depth; ++s)
          EXPECT_EQ(schedule->position_of(schedule->stage_of(chunk, s, depth), depth), s) << schedule->name;
}

TEST(Pipedream, RepeatsOneForwardOneBackwardAndOneUpdate) {
  const std::vector<std::string> expected = {"F0 B0''' U'''", "F0 B0'' U''", "F0 B0' U'", "F0 B0 U"};
  EXPECT_EQ(texts_of(kPipedream, 4, 1, 1), expected);
  // At the start, as in the paper's figure: three forwards before the first backward.
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

// -- memory

TEST(Schedules, KeepAsManyMicroBatchesInFlightAsPublished) {
  const auto at_most = [](const Schedule& schedule, const PipelinePlace& place) {
    const bool splits = schedule.name.starts_with("zero-bubble");
    return most_in_flight(deeds_of(schedule, place, 15), splits ? TaskKind::backward_input : TaskKind::backward);
  };
  for_each_place(kGpipe,
                 [&](const PipelinePlace& at) { EXPECT_EQ(at_most(kGpipe, at), at.micro_batches * at.chunks); });
  for (const Schedule* schedule : {&kOneForwardOneBackward, &kZeroBubble})
    for_each_place(*schedule, [&](const PipelinePlace& at) {
      EXPECT_EQ(at_most(*schedule, at), std::min(at.micro_batches, at.depth - at.position));
    });
  for (const Schedule* schedule : {&kZeroBubbleH2, &kZeroBubble2p})
    for_each_place(*schedule, [&](const PipelinePlace& at) {
      EXPECT_EQ(at_most(*schedule, at), std::min(at.micro_batches, 2 * (at.depth - 1 - at.position) + 1));
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

TEST(ZeroBubbleH2, KeepsUntilTheWeightGradientAsManyAsPublished) {
  for_each_place(kZeroBubbleH2, [&](const PipelinePlace& at) {  // the paper: (2 p - 1) M_B
    EXPECT_EQ(most_in_flight(deeds_of(kZeroBubbleH2, at, 2), TaskKind::backward_weight),
              std::min(at.micro_batches, 2 * at.depth - 1));
  });
}

TEST(ZeroBubble2p, HoldsNoMoreThanTwiceWhatTheFirstPositionOf1f1bHolds) {
  for_each_place(kZeroBubble2p, [&](const PipelinePlace& at) {
    int halves = 0, most = 0;  // a micro-batch counts half between its two backwards
    for (const Task& task : kZeroBubble2p.tasks(at)) {
      halves += task.kind == TaskKind::forward ? 2 : task.kind == TaskKind::update ? 0 : -1;
      most = std::max(most, halves);
    }
    EXPECT_LE(most, 2 * 2 * at.depth);
  });
}

TEST(ZeroBubbleV, HoldsWhatTheFirstPositionOf1f1bHolds) {
  for_each_place(kZeroBubbleV, [&](const PipelinePlace& at) {  // of half the layers each
    EXPECT_LE(most_in_flight(deeds_of(kZeroBubbleV, at, 2), TaskKind::backward_weight),
              2 * std::min(at.micro_batches, at.depth));
  });
}

/// Expects that batch t finds version max(0, t - delay) of the weights, and that at most `versions` versions, from that
/// one to the newest, are needed at once.
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

// -- misfits

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
      {"zero-bubble-v",
       {0, 2, 1, 4},
       "it runs 2 stages per worker, but the plan has 1",
       "with one stage per worker use schedule \"zero-bubble\""},
      {"zero-bubble-v", {0, 2, 3, 4}, "it runs 2 stages per worker, but the plan has 3", "give every worker 2"},
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
      {"gpipe", {0, 4, 3, 1}},         {"1f1b", {0, 4, 1, 1}},
      {"interleaved", {0, 4, 2, 8}},   {"interleaved", {0, 4, 3, 4}},
      {"zero-bubble", {0, 4, 1, 2}},   {"zero-bubble-h2", {0, 4, 1, 2}},
      {"zero-bubble-v", {0, 4, 2, 1}}, {"pipedream", {0, 4, 1, 1}},
      {"2bw", {0, 4, 1, 4}},           {"2bw", {0, 1, 1, 1}}};
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
  EXPECT_EQ(names, (std::vector<std::string_view>{"gpipe", "1f1b", "interleaved", "zero-bubble", "zero-bubble-h2",
                                                  "zero-bubble-2p", "zero-bubble-v", "pipedream", "2bw"}));
  expect_error(Blame::user,
               {"my.plan.json", "schedule \"1f2b\"", "is not known", "did you mean \"1f1b\"?", "pipedream"},
               [] { find_schedule("1f2b", "my.plan.json"); });
  expect_error(
      Blame::user,
      {"schedule \"zigzag\"",
       "known are gpipe, 1f1b, interleaved, zero-bubble, zero-bubble-h2, zero-bubble-2p, zero-bubble-v, pipedream, "
       "2bw"},
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

}  // namespace
}  // namespace trireme
