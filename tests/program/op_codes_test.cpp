// The table of op codes is consistent.
#include "program/op_codes.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace trireme {
namespace {

constexpr int kCodes = int(OpCode::agree) + 1;

TEST(OpCodes, EachHasARowOfItsOwn) {
  std::set<std::string> names;
  for (int c = 0; c < kCodes; ++c) {
    EXPECT_EQ(int(description_of(OpCode(c)).code), c);
    names.insert(name_of(OpCode(c)));
  }
  EXPECT_EQ(int(names.size()), kCodes);
}

TEST(OpCodes, EveryTakenMessageIsPosted) {
  for (int c = 0; c < kCodes; ++c) {
    const OpCodeDescription& code = description_of(OpCode(c));
    if (!code.takes) continue;
    const OpCodeDescription& from = description_of(code.takes->from);
    EXPECT_NE(from.rendezvous, nullptr) << code.name;
    EXPECT_EQ(from.operand, code.operand) << code.name;  // both use the same index
    EXPECT_EQ(code.lane, Lane::main) << code.name;       // a rank takes one message at a time
  }
}

TEST(OpCodes, OnlySegmentsAreDrawn) {
  for (int c = 0; c < kCodes; ++c) {
    const OpCodeDescription& code = description_of(OpCode(c));
    if (code.drawing.units <= 0) continue;
    EXPECT_EQ(code.operand, Operand::segment) << code.name;
    EXPECT_EQ(code.resource, Resource::device) << code.name;
    EXPECT_NE(std::string(code.drawing.kind), "") << code.name;
  }
}

}  // namespace
}  // namespace trireme
