// Texts of strategies: what is allowed, how lists of them are joined, and the messages for mistakes.
#include "plan/strategy.h"

#include "../base/expect_error.h"

namespace trireme {
namespace {

using Texts = std::vector<std::string>;

TEST(ParseStrategy, NameAndKeys) {
  const Strategy s =
      parse_strategy("1f1b,recompute=except_last,micro_batches=6,compression=powersgd:2,speeds=2:1:0.5", "test");
  EXPECT_EQ(s.name, "1f1b");
  EXPECT_FALSE(s.devices());
  EXPECT_EQ(s.micro_batches, 6);
  EXPECT_EQ(s.recompute, Strategy::Recompute::except_last);
  EXPECT_FALSE(s.recompute_communication);
  const Strategy full = parse_strategy(
      "tensor,recompute=selective,recompute_communication=1,scatter_messages=1,sharding_group=8", "test");
  EXPECT_EQ(full.sharding_group, 8);
  EXPECT_EQ(full.scatter_messages, true);
  EXPECT_EQ(full.recompute, Strategy::Recompute::selective);
  EXPECT_EQ(full.recompute_communication, true);
  EXPECT_EQ(s.compression, (Compression{Compression::Kind::powersgd, 2}));
  EXPECT_EQ(s.speeds, (std::vector<double>{2, 1, 0.5}));
  EXPECT_FALSE(s.schedule || s.sharding || s.chunks || s.data || s.vertical_sync);
}

TEST(ParseStrategy, DegreesInAnyOrder) {
  const Strategy s =
      parse_strategy("schedule=interleaved,pipeline=2,sharding=zero1,chunks=3,data=4,vertical_sync=0", "test");
  EXPECT_EQ(s.name, "");
  EXPECT_EQ(s.devices(), 8);
  EXPECT_EQ(s.schedule, "interleaved");
  EXPECT_EQ(s.chunks, 3);
  EXPECT_EQ(s.sharding, OptimizerSharding::zero1);
  EXPECT_EQ(s.vertical_sync, false);
  EXPECT_EQ(parse_strategy("compression=powersgd,data=2", "test").compression,
            (Compression{Compression::Kind::powersgd, 4}));
  EXPECT_EQ(parse_strategy("compression=none,recompute=none,data=2", "test").recompute, Strategy::Recompute::none);
}

TEST(StrategyNote, OfAReconstructionOnly) {
  EXPECT_TRUE(strategy_note("asa").starts_with("asa: a reconstruction"));
  EXPECT_NE(strategy_syntax().find("asa (a reconstruction)"), std::string::npos);
  for (const char* name : {"exact", "hybrid-static", "data", "single", ""}) EXPECT_EQ(strategy_note(name), "") << name;
}

TEST(Strategies, ListsFollowFromTheRegistry) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(single_strategy(), "single");
  EXPECT_EQ(usual_strategy(), "data");
  EXPECT_EQ(compared_strategies(), (Names{"single", "data", "tensor", "pipeline", "hybrid"}));
  EXPECT_EQ(strategies_to_beat(), (Names{"single", "data", "tensor", "pipeline", "1f1b", "interleaved", "zero-bubble",
                                         "zero-bubble-h2", "zero-bubble-2p", "zero-bubble-v", "hybrid:tensor",
                                         "hybrid:pipeline", "zero1", "zero2", "zero3", "zero3,recompute=all"}));
  EXPECT_EQ(memory_savers(), (Names{"zero1", "zero2", "zero3", "data,recompute=all", "1f1b,recompute=all"}));
  EXPECT_EQ(strategies_of_own_rule(), Names{"branches"});
  EXPECT_EQ(planned_strategies(), (Names{"hybrid-static", "asa", "exact", "placement"}));
  EXPECT_TRUE(is_single("single,recompute=all"));
  EXPECT_FALSE(is_single("singles"));
  EXPECT_FALSE(is_single("my plan"));
}

TEST(ParseStrategy, EveryNameIsKnown) {
  for (const NamedStrategy& named : named_strategies()) EXPECT_EQ(parse_strategy(named.name, "test").name, named.name);
  for (const std::string& name : planned_strategies()) {
    EXPECT_EQ(parse_strategy(name, "test").name, name);
    EXPECT_EQ(parse_strategy(name, "test").devices(), std::nullopt);
    EXPECT_EQ(family_of(name), name);
    EXPECT_TRUE(is_planned(name));
  }
  EXPECT_FALSE(is_planned("data"));
}

void refuse(const std::string& text, std::vector<std::string> parts) {
  SCOPED_TRACE(text);
  parts.emplace_back("--plan");
  expect_error(Blame::user, parts, [&] { parse_strategy(text, "--plan"); });
}

TEST(ParseStrategy, Refused) {
  refuse("1fb1", {"\"1fb1\"", "neither a known strategy nor a degree", "did you mean \"1f1b\""});
  refuse("completely-else", {"known: single, data", "zero3", "schedule=1f1b"});
  refuse("data,compresion=bf16",
         {"\"compresion=bf16\"", "neither a degree nor another key", "did you mean \"compression\""});
  refuse("data=2,tensro=2", {"\"tensro=2\"", "did you mean \"tensor\""});
  refuse("data,x=2", {"\"x=2\"", "keys are data, tensor"});
  refuse("data,", {"\"\"", "neither a degree"});
  refuse("data,single", {"\"single\"", "neither a degree"});
  refuse("data,recompute", {"\"recompute\"", "is not a known value of recompute"});
  refuse("data,recompute=everything", {"\"recompute=everything\"", "known: none, all, except_last"});
  refuse("data,recompute=exceptlast", {"did you mean recompute=except_last?"});
  refuse("pipeline=2,schedule=1fb1", {"is not a known value of schedule", "did you mean schedule=1f1b?"});
  refuse("data,sharding=2", {"is not a known value of sharding", "known: none, zero1, zero2, zero3"});
  refuse("data,compression=zip", {"is not a known value of compression", "known: none, bf16, bf16-stored, powersgd"});
  refuse("data,compression=bf16:2", {"only powersgd has a rank"});
  refuse("data,compression=powersgd:0", {"at least 1", "compression=powersgd:2"});
  refuse("data,compression=powersgd:", {"at least 1"});
  refuse("data,compression=powersgd:2:3", {"only powersgd has a rank"});
  refuse("pipedream,vertical_sync=yes", {"must be 0 or 1", "vertical_sync=1"});
  refuse("data,speeds=2:0", {"must be positive numbers", "speeds=2:1"});
  refuse("data,speeds=2:", {"must be positive numbers"});
  refuse("data,speeds=1:inf", {"must be positive numbers"});
  refuse("data,micro_batches=2.5", {"must be a whole number of at least 1", "micro_batches=2"});
  refuse("data,micro_batches=2,micro_batches=3", {"micro_batches is given twice"});
  refuse("data,tensor=2", {"\"tensor=2\"", "data already determines the degree of each axis", "spell out all degrees"});
  refuse("1f1b,schedule=gpipe", {"1f1b already determines the schedule"});
  refuse("zero1,sharding=zero2", {"zero1 already determines the sharding"});
  refuse("exakt", {"did you mean \"exact\"?"});
  refuse("exact,recompute=all", {"\"recompute=all\"", "found by a planner"});
  refuse("data,exact", {"\"exact\"", "neither a degree"});
  refuse("my.json,recompute=all", {"\"my.json\"", "neither a known strategy"});
}

TEST(FamilyOf, LeavesVariantsAndKeysAway) {
  EXPECT_EQ(family_of("hybrid:tensor"), "hybrid");
  EXPECT_EQ(family_of("hybrid:tensor,compression=powersgd:2"), "hybrid");
  EXPECT_EQ(family_of("data,compression=powersgd:2"), "data");
  EXPECT_EQ(family_of("data=2,compression=powersgd:2"), "data=2,compression=powersgd:2");
  EXPECT_EQ(family_of("one weird trick"), "one weird trick");
}

TEST(JoinStrategies, KeysBelongToThePrecedingName) {
  const auto join = [](const Texts& items) { return join_strategies(items); };
  EXPECT_EQ(join({}), Texts{});
  EXPECT_EQ(join({"data=2", "tensor=2", "single", "mine.json", "data", "data"}),
            (Texts{"data=2,tensor=2", "single", "mine.json", "data", "data"}));
  EXPECT_EQ(join({"1f1b", "recompute=all", "micro_batches=4", "data", "compression=bf16"}),
            (Texts{"1f1b,recompute=all,micro_batches=4", "data,compression=bf16"}));
  EXPECT_EQ(join({"data", "data=2", "tensor=2"}), (Texts{"data", "data=2,tensor=2"}));  // a degree after a name
  EXPECT_EQ(join({"data", "recompute=all", "data=2"}), (Texts{"data,recompute=all", "data=2"}));
  EXPECT_EQ(join({"data=2", "sharding=zero1", "tensor=2", "data=4"}),
            (Texts{"data=2,sharding=zero1,tensor=2", "data=4"}));
  EXPECT_EQ(join({"pipeline=2", "micro_batches=2", "pipeline=2", "micro_batches=4"}),
            (Texts{"pipeline=2,micro_batches=2", "pipeline=2,micro_batches=4"}));
  EXPECT_EQ(join({"a/b=c.json", "data"}), (Texts{"a/b=c.json", "data"}));
  // parse_strategy refuses these; none becomes another plan silently.
  EXPECT_EQ(join({"data", "recompute=all", "recompute=all"}), (Texts{"data,recompute=all,recompute=all"}));
  EXPECT_EQ(join({"mine.json", "recompute=all"}), (Texts{"mine.json,recompute=all"}));
}

}  // namespace
}  // namespace trireme
