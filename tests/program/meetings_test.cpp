// Who meets whom, against the transfers that a redistribution really makes.
#include "program/meetings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "hand_made.h"
#include "tensor/redistribute.h"

namespace trireme {
namespace {

class Layouts {
 public:
  explicit Layouts(unsigned seed) : random_(seed) {}

  int below(int bound) { return int(random_() % unsigned(bound)); }

  Mesh mesh(int first, int size) {
    Mesh mesh;
    for (int w = 0; w < size; ++w) mesh.workers.push_back(first + w);
    do mesh.data = 1 + below(size);
    while (size % mesh.data != 0);
    mesh.tensor = size / mesh.data;
    return mesh;
  }

  Layout on(const Mesh& mesh) {
    Layout layout{mesh, placement(), placement()};
    while (layout.data.is_shard() && layout.data == layout.tensor) layout.tensor = placement();
    if (mesh.data == 1) layout.data = Placement::replicate();
    if (mesh.tensor == 1) layout.tensor = Placement::replicate();
    return layout;
  }

  Shape shape() { return {1 + below(12), 1 + below(12), 1 + below(12)}; }

 private:
  Placement placement() {
    const int choice = below(5);
    return choice == 0 ? Placement::replicate() : choice == 1 ? Placement::partial() : Placement::shard(choice - 2);
  }
  std::mt19937 random_;
};

/// A program of one move.
testing::HandMade moving(const Layout& from, const Layout& to) {
  testing::HandMade made{testing::chain(1), {}};
  made.program.values = {{2, from, from, true, false}, {2, to, to, true, false}};
  made.program.moves = {{0, 1, from, to, false, true, true}};
  made.program.list_of_rank.assign(64, 0);
  return made;
}

TEST(Meetings, WhoExchangesWithinAStageJoins) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Layouts layouts(seed);
  int alone = 0, lines = 0;
  for (int round = 0; round < 2000; ++round) {
    const Mesh mesh = layouts.mesh(0, 1 + layouts.below(8));
    const Layout from = layouts.on(mesh), to = layouts.on(layouts.below(4) == 0 ? layouts.mesh(0, mesh.size()) : mesh);
    const testing::HandMade made = moving(from, to);
    Meetings meetings(made.program, made.model);
    const Instruction move{OpCode::redistribute, 0, 0};
    for (const TensorTransfer& t : plan_transfers(from, to, layouts.shape())) {
      if (t.source == t.destination) continue;
      const Role a = meetings.role_of(t.source, move), b = meetings.role_of(t.destination, move);
      ASSERT_EQ(int(a.part), int(Part::join)) << to_string(from) << " -> " << to_string(to);
      ASSERT_EQ(a.channel, b.channel) << to_string(from) << " -> " << to_string(to);
      ASSERT_EQ(meetings.channel(a.channel).members[size_t(a.index)], t.source);
    }
    // and where nothing can move, nobody waits
    if (from.mesh == to.mesh && classify(from, to) <= RedistributionKind::slice) {
      for (int worker : mesh.workers)
        EXPECT_EQ(int(meetings.role_of(worker, move).part), int(Part::alone)) << to_string(from) << " -> " << to_string(to);
    }
    const Role first = meetings.role_of(0, move);
    alone += first.part == Part::alone;
    lines += first.part == Part::join && int(meetings.channel(first.channel).members.size()) < mesh.size();
  }
  EXPECT_GT(alone, 100);
  EXPECT_GT(lines, 100);
}

TEST(Meetings, ReceiversTakeFromAllTheirSources) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Layouts layouts(seed);
  int narrowed = 0;
  for (int round = 0; round < 2000; ++round) {
    const int senders = 1 + layouts.below(8), receivers = 1 + layouts.below(8);
    const Layout from = layouts.on(layouts.mesh(0, senders)), to = layouts.on(layouts.mesh(senders, receivers));
    const testing::HandMade made = moving(from, to);
    Meetings meetings(made.program, made.model);
    for (const TensorTransfer& t : plan_transfers(from, to, layouts.shape())) {
      if (is_empty(t.box)) continue;
      const Role post = meetings.role_of(t.source, {OpCode::send, 0, 0});
      const Role take = meetings.role_of(t.destination, {OpCode::receive, 0, 0});
      ASSERT_EQ(post.channel, take.channel)
          << t.source << " to " << t.destination << ": " << to_string(from) << " -> " << to_string(to);
      EXPECT_EQ(meetings.channel(take.channel).receivers[size_t(take.index)], t.destination);
      narrowed += int(meetings.channel(take.channel).members.size()) < senders;
    }
  }
  EXPECT_GT(narrowed, 1000);
}

/// Where both stages lie alike the sources are exactly those of the transfers.
TEST(Meetings, LikeStagesSendOneToOne) {
  const Layout from{{{0, 1, 2, 3, 4, 5, 6, 7}, 4, 2}, Placement::shard(0), Placement::replicate()};
  Layout to = from;
  for (int& worker : to.mesh.workers) worker += 8;
  for (const Placement& tensor : {Placement::replicate(), Placement::shard(1), Placement::partial()}) {
    Layout a = from, b = to;
    a.tensor = b.tensor = tensor;
    const testing::HandMade made = moving(a, b);
    Meetings meetings(made.program, made.model);
    for (int worker : b.mesh.workers) {
      std::set<int> sources;
      for (const TensorTransfer& t : plan_transfers(a, b, {16, 16}))
        if (t.destination == worker) sources.insert(t.source);
      const Role take = meetings.role_of(worker, {OpCode::receive, 0, 0});
      EXPECT_THAT(meetings.channel(take.channel).members, ::testing::ElementsAreArray(sources));
    }
  }
}

TEST(Meetings, UnequalSharesOfTheBatchMeetEverybody) {
  Layout from{{{0, 1}, 2, 1}, Placement::shard(0), {}}, to{{{2, 3}, 2, 1, {1, 3}}, Placement::shard(0), {}};
  const testing::HandMade made = moving(from, to);
  Meetings meetings(made.program, made.model);
  EXPECT_EQ(meetings.channel(meetings.role_of(2, {OpCode::receive, 0, 0}).channel).members.size(), 2u);
}

}  // namespace
}  // namespace trireme
