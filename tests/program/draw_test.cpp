// Schedules on the unit clock and as drawings.
#include "program/draw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "hand_made.h"
#include "program/clock.h"

namespace trireme {
namespace {

using test_support::HandMade;
using test_support::pipeline;

HandMade gpipe(int p, int m) { return pipeline(std::vector<std::string>(size_t(p), test_support::gpipe_order(m))); }

HandMade one_forward_one_backward(int p, int m, int replicas = 1) {
  std::vector<std::string> orders;
  for (int s = 0; s < p; ++s) orders.push_back(test_support::one_forward_one_backward_order(std::min(p - 1 - s, m), m));
  return pipeline(orders, replicas);
}

/// A share of (p - 1) / (m + p - 1) of the time (m + p - 1) (1 + 2) is bubble: Huang et al., "GPipe". 1f1b with flush
/// has the same.
TEST(Clock, BubblesOfFlushedPipelines) {
  for (int p = 1; p <= 5; ++p)
    for (int m = 1; m <= 9; ++m)
      for (const HandMade& made : {gpipe(p, m), one_forward_one_backward(p, m)}) {
        const UnitTimeline timeline = unit_clock(made.program, made.model);
        EXPECT_NEAR(timeline.makespan, 3.0 * (m + p - 1), 1e-9) << p << " " << m;
        ASSERT_EQ(timeline.bubbles.size(), size_t(p));
        for (double bubble : timeline.bubbles) EXPECT_NEAR(bubble, double(p - 1) / (m + p - 1), 1e-9) << p << " " << m;
      }
}

TEST(Clock, ChunksTakeTheirShare) {
  // Two workers with two stages each, one micro-batch: 4 forwards of 1/2 and 4 backwards of 1.
  const HandMade made = pipeline({"F0:0 F0:2 B0:2 B0:0", "F0:1 F0:3 B0:3 B0:1"}, 1, 2);
  const UnitTimeline timeline = unit_clock(made.program, made.model);
  EXPECT_DOUBLE_EQ(timeline.makespan, 6);
  EXPECT_DOUBLE_EQ(timeline.bubbles[0], 0.5);
  ASSERT_EQ(timeline.ranks[1].size(), 4u);
  EXPECT_EQ(timeline.ranks[1][1].stage, 3);
  EXPECT_DOUBLE_EQ(timeline.ranks[1][1].begin, 1.5);
  EXPECT_DOUBLE_EQ(timeline.ranks[1][1].end, 2);
}

TEST(Clock, SegmentsShareTheirStagesUnitByFlops) {
  HandMade made = pipeline({"F0 B0"});
  Program& p = made.program;
  made.model = test_support::chain(3);
  p.ops.resize(3, p.ops[0]);
  for (int i = 0; i < 3; ++i) p.ops[size_t(i)].node = made.model.input_count() + i;
  p.segments = {{0, {0, 1}}, {0, {2}}};  // layers of equal work
  p.segment_buckets = {{0}, {0}};
  p.lists = {{{OpCode::forward, 0, 0},
              {OpCode::forward, 1, 0},
              {OpCode::recompute, 1, 0},
              {OpCode::backward, 1, 0},
              {OpCode::backward_input, 0, 0},
              {OpCode::backward_weight, 0, 0}}};
  complete(p, made.model);
  const auto stretches = unit_clock(p, made.model).ranks[0];
  const std::vector<double> ends{1, 4.0 / 3, 2, 8.0 / 3, 10.0 / 3};  // the two forwards are drawn as one
  ASSERT_EQ(stretches.size(), ends.size());
  for (size_t i = 0; i < ends.size(); ++i) EXPECT_NEAR(stretches[i].end, ends[i], 1e-9) << i;
}

TEST(Clock, BackwardInputIsAllWhereNothingIsLeftForLater) {
  const HandMade split = pipeline({"F0 I0 W0"}), whole = pipeline({"F0 I0"});
  EXPECT_DOUBLE_EQ(unit_clock(split.program, split.model).ranks[0][1].end, 2);
  EXPECT_DOUBLE_EQ(unit_clock(whole.program, whole.model).ranks[0][1].end, 3);
}

TEST(Draw, Gpipe) {
  const HandMade made = gpipe(2, 4);
  EXPECT_EQ(draw_schedule(made.program, made.model, 80),
            "                   0         5         10        15\n"
            "worker 0, stage 0 |0 1 2 3 ......b3  b2  b1  b0  |\n"
            "worker 1, stage 1 |..0 1 2 3 b3  b2  b1  b0  ....|\n"
            "0 forward of micro-batch 0, b0 backward, . idle\n"
            "1 unit of time: one forward of a micro-batch through a stage\n"
            "bubble: 20.0 % of 15 units\n");
}

TEST(Draw, OneForwardOneBackward) {
  const HandMade made = one_forward_one_backward(2, 4, 2);
  EXPECT_EQ(draw_schedule(made.program, made.model, 80),
            "                      0         5         10        15\n"
            "workers 0-1, stage 0 |0 1 ....b0  2 b1  3 b2  ..b3  |\n"
            "workers 2-3, stage 1 |..0 b0  1 b1  2 b2  3 b3  ....|\n"
            "0 forward of micro-batch 0, b0 backward, . idle\n"
            "1 unit of time: one forward of a micro-batch through a stage\n"
            "bubble: 20.0 % of 15 units\n");
}

TEST(Draw, SplitBackwardAndRecompute) {
  const HandMade made = pipeline({"F0 R0 I0 W0", "F0 I0 W0"});
  EXPECT_EQ(draw_schedule(made.program, made.model, 80),
            "                   0              5\n"
            "worker 0, stage 0 |0  r0 ...b0 w0 |\n"
            "worker 1, stage 1 |...0  b0 w0 ...|\n"
            "0 forward of micro-batch 0, r0 forward recomputed, b0 backward of inputs, w0 of weights, . idle\n"
            "1 unit of time: one forward of a micro-batch through a stage\n"
            "bubble: 30.0 % of 5 units\n");
}

TEST(Draw, ChunksHaveLetters) {
  const HandMade made = pipeline({"F0:0 F0:2 B0:2 B0:0", "F0:1 F0:3 B0:3 B0:1"}, 1, 2);
  const std::string text = draw_schedule(made.program, made.model, 100);
  EXPECT_THAT(text, ::testing::HasSubstr("worker 0, stages 0,2 |A0 ...B0 .........bB0   ......bA0   |\n"));
  EXPECT_THAT(text, ::testing::HasSubstr("A, B, ... first, second, ... stage of a worker\n"));
  EXPECT_THAT(text, ::testing::HasSubstr("bubble: 50.0 % of 6 units\n"));
}

TEST(Draw, WithoutFlushBatchesAreNumbered) {
  HandMade made = pipeline({"F0 B0@1 U@1", "F0 B0 U"});
  made.program.ops[0].delay = 1;
  complete(made.program, made.model);
  EXPECT_EQ(draw_schedule(made.program, made.model, 80),
            "                   0         5         10        15\n"
            "worker 0, stage 0 |0 1 ....b0  2 b1  3 b2  ..b3  |\n"
            "worker 1, stage 1 |..0 b0  1 b1  2 b2  3 b3  ....|\n"
            "0 forward of batch 0, b0 backward, . idle\n"
            "1 unit of time: one forward of a micro-batch through a stage\n"
            "without flush: batches 0 to 3 are shown, with draining; a longer run continues without draining\n");
}

TEST(Draw, SaysWhatItLeavesOut) {
  const HandMade made = gpipe(2, 12);
  const std::string text = draw_schedule(made.program, made.model, 60);
  EXPECT_THAT(text, ::testing::HasSubstr("cut off after 13 of 39 units: a wider terminal shows more\n"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("worker") && !line.starts_with(" ")) continue;
    EXPECT_LE(line.size(), 60u) << line;
  }
}

TEST(Draw, DrawingForTheReport) {
  const HandMade made = one_forward_one_backward(2, 2, 2);
  const nlohmann::json drawing = schedule_drawing(made.program, made.model);
  EXPECT_EQ(drawing["makespan"], 9);
  EXPECT_EQ(drawing["micro_batches"], 2);
  EXPECT_NEAR(drawing["bubble"].get<double>(), 1.0 / 3, 1e-9);
  ASSERT_EQ(drawing["rows"].size(), 2u);
  const nlohmann::json& row = drawing["rows"][1];
  EXPECT_EQ(row["label"], "workers 2-3, stage 1");
  EXPECT_EQ(row["workers"], nlohmann::json({2, 3}));
  ASSERT_EQ(row["boxes"].size(), 4u);
  EXPECT_EQ(row["boxes"][1],
            nlohmann::json(
                {{"begin", 2.0}, {"end", 4.0}, {"kind", "backward"}, {"stage", 1}, {"micro_batch", 0}, {"batch", 0}}));
}

}  // namespace
}  // namespace trireme
