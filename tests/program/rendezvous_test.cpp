// Compares the ranks of each rendezvous with the transfers of the redistribution.
#include "program/rendezvous.h"

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

/// A program with one redistribution: the first list redistributes, the second sends, the third receives.
enum List { redistributes, sends, receives };
test_support::HandMade moving(const Layout& from, const Layout& to) {
  test_support::HandMade made{test_support::chain(1), {}};
  made.program.values = {{2, from, from, true, false}, {2, to, to, true, false}};
  made.program.redistributions = {{0, 1, from, to, false, true, true}};
  made.program.lists = {{{OpCode::redistribute, 0, 0}}, {{OpCode::send, 0, 0}}, {{OpCode::receive, 0, 0}}};
  made.program.list_of_rank.assign(64, 0);
  complete(made.program, made.model);
  return made;
}

Role role_in(const test_support::HandMade& made, int rank, List list) {
  return role_of(made.program, rank, made.program.sites[size_t(list)].sites[0]);
}

const Channel& channel_of(const test_support::HandMade& made, const Role& role) {
  return made.program.channels[size_t(role.channel)];
}

TEST(Rendezvous, RanksThatExchangeWithinAStageJoin) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Layouts layouts(seed);
  int alone = 0, lines = 0;
  for (int round = 0; round < 2000; ++round) {
    const Mesh mesh = layouts.mesh(0, 1 + layouts.below(8));
    const Layout from = layouts.on(mesh), to = layouts.on(layouts.below(4) == 0 ? layouts.mesh(0, mesh.size()) : mesh);
    const test_support::HandMade made = moving(from, to);
    for (const TensorTransfer& t : plan_transfers(from, to, layouts.shape())) {
      if (t.source == t.destination) continue;
      const Role a = role_in(made, t.source, redistributes), b = role_in(made, t.destination, redistributes);
      ASSERT_EQ(int(a.part), int(Part::join)) << to_string(from) << " -> " << to_string(to);
      ASSERT_EQ(a.channel, b.channel) << to_string(from) << " -> " << to_string(to);
      ASSERT_EQ(channel_of(made, a).members[size_t(a.index)], t.source);
    }
    // If nothing can move, no worker waits.
    if (from.mesh == to.mesh && classify(from, to) <= RedistributionKind::slice) {
      for (int worker : mesh.workers)
        EXPECT_EQ(int(role_in(made, worker, redistributes).part), int(Part::alone))
            << to_string(from) << " -> " << to_string(to);
    }
    const Role first = role_in(made, 0, redistributes);
    alone += first.part == Part::alone;
    lines += first.part == Part::join && int(channel_of(made, first).members.size()) < mesh.size();
  }
  EXPECT_GT(alone, 100);
  EXPECT_GT(lines, 100);
}

TEST(Rendezvous, ReceiversTakeFromAllTheirSources) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Layouts layouts(seed);
  int narrowed = 0;
  for (int round = 0; round < 2000; ++round) {
    const int senders = 1 + layouts.below(8), receivers = 1 + layouts.below(8);
    const Layout from = layouts.on(layouts.mesh(0, senders)), to = layouts.on(layouts.mesh(senders, receivers));
    const test_support::HandMade made = moving(from, to);
    for (const TensorTransfer& t : plan_transfers(from, to, layouts.shape())) {
      if (is_empty(t.box)) continue;
      const Role post = role_in(made, t.source, sends);
      const Role take = role_in(made, t.destination, receives);
      ASSERT_EQ(post.channel, take.channel)
          << t.source << " to " << t.destination << ": " << to_string(from) << " -> " << to_string(to);
      EXPECT_EQ(channel_of(made, take).receivers[size_t(take.index)], t.destination);
      narrowed += int(channel_of(made, take).members.size()) < senders;
    }
  }
  EXPECT_GT(narrowed, 1000);
}

/// If both stages have the same layout, the sources are exactly those of the transfers.
TEST(Rendezvous, LikeStagesSendOneToOne) {
  const Layout from{{{0, 1, 2, 3, 4, 5, 6, 7}, 4, 2}, Placement::shard(0), Placement::replicate()};
  Layout to = from;
  for (int& worker : to.mesh.workers) worker += 8;
  for (const Placement& tensor : {Placement::replicate(), Placement::shard(1), Placement::partial()}) {
    Layout a = from, b = to;
    a.tensor = b.tensor = tensor;
    const test_support::HandMade made = moving(a, b);
    for (int worker : b.mesh.workers) {
      std::set<int> sources;
      for (const TensorTransfer& t : plan_transfers(a, b, {16, 16}))
        if (t.destination == worker) sources.insert(t.source);
      const Role take = role_in(made, worker, receives);
      EXPECT_THAT(channel_of(made, take).members, ::testing::ElementsAreArray(sources));
    }
  }
}

TEST(Rendezvous, UnequalSharesOfTheBatchNeedAllRanks) {
  Layout from{{{0, 1}, 2, 1}, Placement::shard(0), {}}, to{{{2, 3}, 2, 1, {1, 3}}, Placement::shard(0), {}};
  const test_support::HandMade made = moving(from, to);
  EXPECT_EQ(channel_of(made, role_in(made, 2, receives)).members.size(), 2u);
}

}  // namespace
}  // namespace trireme
