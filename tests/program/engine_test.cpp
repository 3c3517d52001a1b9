// Executes a program without tensors: which ranks wait for each other, when instructions begin, what remains at the
// end. Expected times are worked out by hand.
#include "program/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "hand_made.h"

namespace trireme {
namespace {

using test_support::HandMade;
using test_support::Recorder;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Event = Recorder::Event;

/// Seconds by op code; other codes take none.
Recorder::Duration by_code(std::map<OpCode, double> seconds) {
  return [seconds](int, const Instruction& i) { return seconds.count(i.code) ? seconds.at(i.code) : 0.0; };
}

/// Begin of the n-th instruction with this code.
double begin_of(const HandMade& made, const Recorder& clock, int rank, OpCode code, int n = 0) {
  for (const Event& event : clock.events[size_t(rank)])
    if (made.program.instructions(rank)[size_t(event.index)].code == code && n-- == 0) return event.begin;
  ADD_FAILURE() << "rank " << rank << " has no such " << name_of(code);
  return -1;
}

TEST(Engine, TimesOfAPipeline) {
  const HandMade made = test_support::pipeline({"F0 F1 B0 B1", "F0 B0 F1 B1"});
  Recorder clock(2, [](int rank, const Instruction& i) {
    switch (i.code) {
      case OpCode::forward: return rank == 0 ? 1.0 : 3.0;
      case OpCode::backward: return rank == 0 ? 2.0 : 4.0;
      case OpCode::send: return 0.5;
      default: return 0.25;  // receive
    }
  });
  const EngineEnd end = clock.run(made);
  EXPECT_THAT(clock.events[0],
              ElementsAre(Event{0, 0, 0, 1}, Event{1, 0, 1, 1.5},          // forward 0, send
                          Event{2, 0, 1.5, 2.5}, Event{3, 0, 2.5, 3},      // forward 1, send
                          Event{4, 0, 9.25, 9.5}, Event{5, 0, 9.5, 11.5},  // the sending of gradient 0 ends at 9.25
                          Event{6, 0, 17, 17.25}, Event{7, 0, 17.25, 19.25}));
  EXPECT_THAT(clock.events[1], ElementsAre(Event{0, 0, 1.5, 1.75}, Event{1, 0, 1.75, 4.75}, Event{2, 0, 4.75, 8.75},
                                           Event{3, 0, 8.75, 9.25}, Event{4, 0, 9.25, 9.5}, Event{5, 0, 9.5, 12.5},
                                           Event{6, 0, 12.5, 16.5}, Event{7, 0, 16.5, 17}));
  EXPECT_EQ(end.seconds, 19.25);
  EXPECT_EQ(end.executed, 16);
  EXPECT_THAT(end.standstills, IsEmpty());
  EXPECT_THAT(end.leftovers, IsEmpty());
}

/// One stage with two segments on a 2 x 2 mesh and a redistribution between them.
HandMade redistributing(Placement tensor_from, Placement tensor_to, Placement data_from, Placement data_to) {
  HandMade made = test_support::stages(2, {{0, 1, 2, 3}, {0, 1, 2, 3}});
  Program& p = made.program;
  p.devices = 4;
  const Mesh mesh{{0, 1, 2, 3}, 2, 2};
  p.values[1].layout = {mesh, data_from, tensor_from};
  p.values[2].layout = {mesh, data_to, tensor_to};
  for (Op& op : p.ops) op.mesh = mesh, op.stage = 0;
  p.lists = {{{OpCode::forward, 0, 0}, {OpCode::redistribute, 0, 0}, {OpCode::forward, 1, 0}}};
  p.list_of_rank = {0, 0, 0, 0};
  return made;
}

/// The time at which each rank begins its second forward. Forwards take rank + 1 seconds; the redistribution takes 0.5
/// s, on ranks 1 and 3 two.
std::vector<double> second_forwards(const HandMade& made) {
  Recorder clock(4, [](int rank, const Instruction& i) {
    if (i.code == OpCode::redistribute) return rank % 2 == 1 ? 2.0 : 0.5;
    return rank + 1.0;
  });
  EXPECT_THAT(clock.run(made).standstills, IsEmpty());
  std::vector<double> begins;
  for (int rank = 0; rank < 4; ++rank) begins.push_back(begin_of(made, clock, rank, OpCode::forward, 1));
  return begins;
}

TEST(Engine, RedistributionJoinsThoseThatExchange) {
  const Placement whole = Placement::replicate(), sum = Placement::partial();
  const Placement samples = Placement::shard(0), columns = Placement::shard(1);
  // Along the tensor axis: the pair begins with its later rank and takes the longer duration.
  EXPECT_THAT(second_forwards(redistributing(sum, whole, samples, samples)), ElementsAre(4, 4, 6, 6));
  // Along the data axis: 0 with 2, 1 with 3.
  EXPECT_THAT(second_forwards(redistributing(columns, columns, samples, whole)), ElementsAre(3.5, 6, 3.5, 6));
  // Along both axes: all ranks.
  EXPECT_THAT(second_forwards(redistributing(columns, whole, samples, whole)), ElementsAre(6, 6, 6, 6));
  // Each rank takes a slice of its own tensor: no rank waits.
  EXPECT_THAT(second_forwards(redistributing(whole, columns, samples, samples)), ElementsAre(1.5, 4, 3.5, 6));
}

TEST(Engine, CommunicatingLayersJoinTheirAxis) {
  HandMade made = test_support::pipeline({"F0 B0"}, 3);
  made.program.ops[0].communicates = true;
  Recorder clock(3, [](int rank, const Instruction&) { return rank + 1.0; });
  clock.run(made);
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_THAT(clock.events[size_t(rank)], ElementsAre(Event{0, 0, 0, 3}, Event{1, 0, 3, 6}));
}

TEST(Engine, ReplicasOfAStageReceiveFromTheirLikeOnly) {
  const HandMade made = test_support::pipeline({"F0", "F0"}, 2);
  Recorder clock(4, [](int rank, const Instruction&) { return rank == 1 ? 5.0 : 1.0; });
  clock.run(made);
  EXPECT_EQ(begin_of(made, clock, 2, OpCode::receive), 2);   // after forward and send of rank 0
  EXPECT_EQ(begin_of(made, clock, 3, OpCode::receive), 10);  // after those of rank 1
}

TEST(Engine, StagesOfDifferentWidthReceiveFromAll) {
  HandMade made = test_support::stages(2, {{0, 1}, {2}});
  made.program.devices = 3;
  made.program.lists = {test_support::instructions("F0", 0, 1), test_support::instructions("F0", 1, 1)};
  made.program.list_of_rank = {0, 0, 1};
  Recorder clock(3, [](int rank, const Instruction&) { return rank == 1 ? 5.0 : 1.0; });
  clock.run(made);
  EXPECT_EQ(begin_of(made, clock, 2, OpCode::receive), 10);
}

// -- replicas of the weights

TEST(Engine, SharedReplicasStepWhenAllHaveAnnounced) {
  const HandMade made = test_support::pipeline({"F0 B0 U"}, 2);
  Recorder clock(2, [](int rank, const Instruction& i) { return i.code == OpCode::backward ? 1.0 + rank : 0.5; });
  clock.run(made, 2);
  // The ranks announce at 2 and 3, both step until 3.5, and the next batch begins there.
  EXPECT_EQ(begin_of(made, clock, 0, OpCode::optimizer_step), 3);
  EXPECT_EQ(begin_of(made, clock, 1, OpCode::optimizer_step), 3);
  EXPECT_EQ(begin_of(made, clock, 0, OpCode::forward, 1), 3.5);
}

TEST(Engine, ForwardOfTheNextBatchWaitsForAllSlices) {
  HandMade made = test_support::pipeline({"F0 B0 U"}, 2);
  const auto slow_step = [](int rank, const Instruction& i) {
    return i.code == OpCode::optimizer_step ? (rank == 1 ? 4.0 : 1.0) : i.code == OpCode::reduce_gradients ? 0.0 : 1.0;
  };
  Recorder clock(2, slow_step);
  clock.run(made, 2);
  EXPECT_EQ(begin_of(made, clock, 0, OpCode::forward, 1), 6);  // 2 + 4: after rank 1's step

  // With one more version of the weights only backward waits: rank 1 may still read the gradient.
  made.program.ops[0].delay = 1;
  Recorder delayed(2, slow_step);
  delayed.run(made, 2);
  EXPECT_EQ(begin_of(made, delayed, 0, OpCode::forward, 1), 3);
  EXPECT_EQ(begin_of(made, delayed, 0, OpCode::backward, 1), 6);

  made.program.private_replicas = true;
  Recorder private_clock(2, slow_step);
  private_clock.run(made, 2);
  EXPECT_EQ(begin_of(made, private_clock, 0, OpCode::forward, 1), 3);
  EXPECT_EQ(begin_of(made, private_clock, 0, OpCode::backward, 1), 4);
  EXPECT_EQ(begin_of(made, private_clock, 0, OpCode::reduce_gradients, 1), 8);  // rank 1: 6 + 1 + 1
}

TEST(Engine, PrivateReplicasReduceTogetherAndGatherSlices) {
  HandMade made = test_support::pipeline({"F0 B0 U"}, 2);
  made.program.private_replicas = true;
  const auto seconds = [](int rank, const Instruction& i) {
    if (i.code == OpCode::reduce_gradients) return 1.0;
    return i.code == OpCode::backward || i.code == OpCode::optimizer_step ? 1.0 + 2 * rank : 0.0;
  };
  Recorder plain(2, seconds);
  plain.run(made);
  EXPECT_EQ(plain.events[0][2], (Event{2, 0, 3, 4}));
  EXPECT_EQ(plain.events[0][3], (Event{3, 0, 4, 5}));
  EXPECT_EQ(plain.events[1][3], (Event{3, 0, 4, 7}));
  made.program.optimizer_sharding = OptimizerSharding::zero1;
  Recorder sharded(2, seconds);
  sharded.run(made);
  EXPECT_EQ(sharded.events[0][3], (Event{3, 0, 4, 7}));
}

TEST(Engine, EachGatherTakesOnePrefetchOfEveryHolder) {
  HandMade made = test_support::pipeline({""}, 2);
  made.program.private_replicas = true;
  made.program.optimizer_sharding = OptimizerSharding::zero3;
  const Instruction prefetch{OpCode::prefetch_weights, 0}, gather{OpCode::gather_weights, 0},
      release{OpCode::release_weights, 0};
  made.program.lists = {{prefetch, gather, release, prefetch, gather}, {prefetch, prefetch, gather, release, gather}};
  made.program.list_of_rank = {0, 1};
  Recorder clock(
      2, [](int rank, const Instruction& i) { return i.code == OpCode::prefetch_weights ? 1.0 + 2 * rank : 0.5; });
  EXPECT_THAT(clock.run(made).leftovers, IsEmpty());
  // Rank 0 prefetches until 1 and 5, rank 1 until 3 and 6.
  EXPECT_EQ(begin_of(made, clock, 0, OpCode::gather_weights, 0), 3);
  EXPECT_EQ(begin_of(made, clock, 0, OpCode::gather_weights, 1), 6);
  EXPECT_EQ(begin_of(made, clock, 1, OpCode::gather_weights, 0), 6);

  made.program.lists[0] = {prefetch, gather, release, gather, prefetch};
  Recorder stuck(2);
  const EngineEnd end = stuck.run(made);
  ASSERT_EQ(end.standstills.size(), 2u);
  EXPECT_EQ(end.standstills[0].index, 3);
  EXPECT_THAT(end.standstills[0].absent, ElementsAre(0));
  EXPECT_EQ(end.standstills[1].index, 4);
  EXPECT_THAT(end.standstills[1].absent, ElementsAre(0));

  made.program.lists[0] = {prefetch, gather, release, prefetch};
  made.program.lists[1] = {prefetch, gather, release, prefetch};
  Recorder unused(2);
  EXPECT_FALSE(unused.run(made).leftovers.empty());
}

TEST(Engine, ClippingJoinsAllRanks) {
  HandMade made = test_support::pipeline({"F0 B0", "F0 B0"}, 2);
  for (auto& list : made.program.lists) list.push_back({OpCode::clip_gradients});
  Recorder clock(4, [](int rank, const Instruction& i) { return i.code == OpCode::backward && rank == 3 ? 7.0 : 0.0; });
  clock.run(made);
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(begin_of(made, clock, rank, OpCode::clip_gradients), 7);
}

// -- schedules without flush

TEST(Engine, LagsFillAndDrain) {
  HandMade made = test_support::pipeline({"F0 B0@1 U@1", "F0 B0 U"});
  made.program.ops[0].delay = 1;
  constexpr int kBatches = 3;
  Recorder clock(2, by_code({{OpCode::forward, 1}, {OpCode::backward, 2}}));
  const EngineEnd end = clock.run(made, kBatches);
  EXPECT_THAT(end.standstills, IsEmpty());
  EXPECT_THAT(end.leftovers, IsEmpty());
  for (int rank = 0; rank < 2; ++rank) {
    const auto& list = made.program.instructions(rank);
    std::map<int, std::vector<int>> batches;  // by index in the list, in the order of execution
    for (const Event& event : clock.events[size_t(rank)])
      batches[event.index].push_back(event.step - list[size_t(event.index)].lag);
    EXPECT_EQ(batches.size(), list.size());
    for (const auto& [index, of_instruction] : batches)
      EXPECT_THAT(of_instruction, ElementsAre(0, 1, 2)) << rank << " " << index;
  }
  // Stage 0: F0 0-1, F1 1-2, B0 4-6, F2 6-7, B1 7-9, B2 10-12. Stage 1: F0 1-2, B0 2-4, F1 4-5, B1 5-7, F2 7-8, B2
  // 8-10.
  EXPECT_EQ(end.seconds, 12);
}

TEST(Engine, StaleWeightsThatNeverComeStandStill) {
  const HandMade made = test_support::pipeline({"F0 B0@1 U@1", "F0 B0 U"});  // stage 0 needs a delay of 1
  Recorder clock(2);
  const EngineEnd end = clock.run(made, 3);
  ASSERT_FALSE(end.standstills.empty());
  EXPECT_EQ(end.standstills[0].rank, 0);
  EXPECT_EQ(end.standstills[0].batch, 1);
  EXPECT_THAT(end.standstills[0].absent, ElementsAre(0));
}

TEST(Engine, BatchesThatShowStartUpAndDraining) {
  EXPECT_EQ(enough_batches(test_support::pipeline({"F0 B0 U"}).program), 1);
  EXPECT_EQ(enough_batches(test_support::pipeline({"F0 B0@3 U@3"}).program), 8);
}

// -- programs that do not end properly

TEST(Engine, NamesTheMissingRank) {
  HandMade made = test_support::pipeline({"F0 B0 U"}, 3);
  made.program.lists.push_back(made.program.lists[0]);
  made.program.lists[1].erase(made.program.lists[1].begin() + 2);  // rank 1 never announces
  made.program.list_of_rank = {0, 1, 0};
  Recorder clock(3);
  const EngineEnd end = clock.run(made);
  ASSERT_EQ(end.standstills.size(), 3u);  // rank 1 itself waits too
  for (const Standstill& standstill : end.standstills) EXPECT_THAT(standstill.absent, ElementsAre(1));
}

TEST(Engine, FindsMessagesThatNoRankTakes) {
  HandMade made = test_support::pipeline({"F0 F1", "F0"});
  Recorder clock(2);
  const EngineEnd end = clock.run(made);
  EXPECT_THAT(end.standstills, IsEmpty());
  ASSERT_EQ(end.leftovers.size(), 1u);
  EXPECT_EQ(end.leftovers[0].sender, 0);
  EXPECT_EQ(end.leftovers[0].receiver, 1);
  EXPECT_EQ(end.leftovers[0].sent, (Instruction{OpCode::send, 0, 1}));
}

/// Messages of the ranks that are left out count as sent, and no rank waits for them to join.
TEST(Engine, ExecutesSomeRanksOnly) {
  const HandMade made = test_support::pipeline({"F0 B0 U", "F0 B0 U"}, 2);
  class Count : public EngineCosts {
   public:
    void end(const Execution& e, double) override { ++ended[e.rank]; }
    std::map<int, int> ended;
  };
  Count count;
  const EngineEnd end = execute(made.program, count, {.batches = 2, .ranks = {0}});
  EXPECT_THAT(end.standstills, IsEmpty());
  EXPECT_THAT(count.ended, ElementsAre(std::pair(0, 2 * int(made.program.instructions(0).size()))));
}

TEST(Engine, StepsThatDoNotDrain) {
  const HandMade made = test_support::pipeline({"F0 B0@2 U@2"});
  class Count : public EngineCosts {
   public:
    explicit Count(const Program& program) : program_(program) {}
    void end(const Execution& e, double) override { ++ended[program_.instructions(e.rank)[size_t(e.index)].code]; }
    std::map<OpCode, int> ended;

   private:
    const Program& program_;
  };
  Count count(made.program);
  Program alone = made.program;
  alone.private_replicas = true;  // no worker waits for the update of another
  complete(alone, made.model);
  execute(alone, count, {.batches = 3, .steps = 3});
  EXPECT_EQ(count.ended[OpCode::forward], 3);
  EXPECT_EQ(count.ended[OpCode::backward], 1);
}

TEST(Engine, MessageSentTwiceIsLeftOver) {
  HandMade made = test_support::pipeline({"F0", "F0"});
  made.list(0).push_back(made.list(0).back());
  Recorder clock(2);
  EXPECT_EQ(clock.run(made).leftovers.size(), 1u);
}

}  // namespace
}  // namespace trireme
