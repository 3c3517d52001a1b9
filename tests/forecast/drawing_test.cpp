#include "forecast/drawing.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "../program/hand_made.h"

namespace trireme::test_support {
namespace {

TEST(Drawing, HoldsTheWholeOfAShortSchedule) {
  const HandMade made = pipeline({gpipe_order(3), gpipe_order(3)});
  const nlohmann::json drawing = short_drawing(made.program, made.model, 12);
  EXPECT_EQ(drawing.at("makespan"), 12);
  EXPECT_EQ(drawing.at("shown_until"), 12);
  for (const nlohmann::json& row : drawing.at("rows")) EXPECT_EQ(row.at("boxes").size(), 6u);
}

/// GPipe with two stages and three micro-batches: forwards begin at 0 1 2 and 1 2 3, backwards at 6 8 10 and 4 6 8.
TEST(Drawing, LeavesOutWhatBeginsLate) {
  const HandMade made = pipeline({gpipe_order(3), gpipe_order(3)});
  const nlohmann::json drawing = short_drawing(made.program, made.model, 8);
  EXPECT_EQ(drawing.at("makespan"), 12);
  EXPECT_EQ(drawing.at("shown_until"), 6) << "two boxes begin at 6 and only one has room";
  EXPECT_EQ(drawing.at("rows").at(0).at("boxes").size(), 3u);
  ASSERT_EQ(drawing.at("rows").at(1).at("boxes").size(), 4u);
  EXPECT_EQ(drawing.at("rows").at(1).at("boxes").at(3).at("end"), 6);
}

}  // namespace
}  // namespace trireme::test_support
