// Collectives on described clusters, compared with formulas of the literature (docs/simulation.md lists them).
#include "cost/cluster_links.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cost/links_of_speed.h"

namespace trireme {
namespace {

constexpr double kNear = 1e9, kFar = 1e8;                  // bytes/s
constexpr double kNearLatency = 1e-5, kFarLatency = 1e-4;  // seconds

Cluster cluster_of(int nodes, int per_node, bool shared = false) {
  Cluster cluster = Cluster::uniform(nodes * per_node);
  cluster.kinds.emplace_back();
  for (int d = 0; d < cluster.size(); ++d)
    cluster.devices[size_t(d)].node = d / per_node, cluster.devices[size_t(d)].kind = 0;
  cluster.nodes.assign(size_t(nodes), ClusterNode{.link = {kNear, kNearLatency, shared}});
  cluster.network = {kFar, kFarLatency, true};
  return cluster;
}

std::vector<int> first(int count) {
  std::vector<int> ranks(static_cast<size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// Seconds of a demand when nothing else uses the links.
double alone(const Demand& demand, const Links& links) {
  std::vector<double> bytes(links.pools().size(), 0);
  for (const Share& share : demand.shares) bytes[size_t(share.pool)] += share.amount;
  double longest = 0;
  for (size_t p = 0; p < bytes.size(); ++p) longest = std::max(longest, bytes[p] / links.pools()[p].capacity);
  return demand.fixed + longest;
}

TEST(ClusterLinks, RingsWithinANode) {
  const double bytes = 1e6;
  for (int n : {2, 3, 4, 7, 8}) {
    const ClusterLinks links(cluster_of(1, 8));
    const auto ranks = first(n);
    const double rounds = std::min(double(n - 1), std::ceil(std::log2(n))), part = double(n - 1) / n * bytes / kNear;
    EXPECT_NEAR(alone(links.collective(RedistributionKind::all_reduce, bytes, ranks, 1), links),
                2 * rounds * kNearLatency + 2 * part, 1e-12);
    EXPECT_NEAR(alone(links.collective(RedistributionKind::all_gather, bytes, ranks, 1), links),
                rounds * kNearLatency + part, 1e-12);
    EXPECT_NEAR(alone(links.collective(RedistributionKind::reduce_scatter, bytes, ranks, 1), links),
                rounds * kNearLatency + part, 1e-12);
    EXPECT_NEAR(alone(links.collective(RedistributionKind::all_to_all, bytes, ranks, 1), links),
                (n - 1) * kNearLatency + part, 1e-12);
  }
}

/// Processes on two machines: each machine has cores of its own, and messages between the machines use the network.
TEST(LinksOfSpeed, OfSeveralMachines) {
  const LinksOfSpeed links(cluster_of(2, 2), {2, 3});
  EXPECT_EQ(links.cores_of(0), links.cores_of(1));
  EXPECT_EQ(links.cores_of(2), links.cores_of(3));
  EXPECT_EQ(links.pools()[size_t(links.cores_of(0))].capacity, 2);
  EXPECT_EQ(links.pools()[size_t(links.cores_of(2))].capacity, 3);
  const double bytes = 1e6;
  EXPECT_NEAR(alone(links.message(0, 1, bytes, 1), links), kNearLatency + bytes / kNear, 1e-12);
  EXPECT_NEAR(alone(links.message(1, 2, bytes, 1), links), kFarLatency + bytes / kFar, 1e-12);
  EXPECT_EQ(links.overlap(), Overlap::sums);
}

/// Processes send their messages while they compute, and each message takes both its ends' cores.
TEST(LinksOfSpeed, TheWorkOfProcessesBetweenProcesses) {
  const WorkOfProcesses work{.within = {.of_message = 1e-5, .of_byte = 1e-9},
                             .between = {.of_message = 4e-5, .of_byte = 2e-9}};
  const LinksOfSpeed links(cluster_of(2, 2), {2, 2}, work);
  EXPECT_EQ(links.overlap(), Overlap::messages);
  const double bytes = 8e6;
  const auto check = [&](RedistributionKind kind, const std::vector<int>& ranks, const std::vector<double>& seconds) {
    const std::vector<Share> shares = links.work_beside(kind, bytes, ranks);
    ASSERT_EQ(shares.size(), seconds.size());
    for (size_t i = 0; i < shares.size(); ++i) {
      EXPECT_EQ(shares[i].pool, links.cores_of(ranks[i]));
      EXPECT_NEAR(shares[i].amount, seconds[i], 1e-12) << i;
    }
  };
  const auto within = [&](double b) { return 1e-5 + b * 1e-9; };
  const auto between = [&](double b) { return 4e-5 + b * 2e-9; };
  check(RedistributionKind::send_receive, {0, 1}, {within(bytes) / 2, within(bytes) / 2});
  check(RedistributionKind::send_receive, {1, 2}, {between(bytes) / 2, between(bytes) / 2});
  check(RedistributionKind::all_gather, {0, 1}, {within(bytes / 2), within(bytes / 2)});
  const double reduced = 2 * (within(bytes / 3) + between(bytes / 3));
  check(RedistributionKind::all_reduce, {0, 1, 2}, {reduced, reduced, 4 * between(bytes / 3)});
  for (const auto kind : {RedistributionKind::all_gather, RedistributionKind::all_to_all})  // not measured
    EXPECT_EQ(links.work_of_redistribution(kind, bytes, first(2)).front().amount,
              links.work_beside(kind, bytes, first(2)).front().amount);
  EXPECT_TRUE(
      LinksOfSpeed(cluster_of(2, 2), {2, 2}).work_beside(RedistributionKind::all_reduce, bytes, first(2)).empty())
      << "threads with emulated links";
}

/// As it was measured in the group of all, and by the bytes that a rank sends in a smaller one.
TEST(LinksOfSpeed, TheWorkOfRedistributions) {
  WorkOfProcesses work;
  work.redistributions.ranks = 4;
  work.redistributions.of[RedistributionKind::all_gather] = {.of_message = 1e-4, .of_byte = 3e-9};
  work.redistributions.of[RedistributionKind::all_to_all] = {.of_message = 2e-4, .of_byte = 5e-9};
  const LinksOfSpeed links(cluster_of(2, 2), {2, 2}, work);
  const double bytes = 8e6;
  const auto seconds = [&](RedistributionKind kind, int ranks) {
    const std::vector<Share> shares = links.work_of_redistribution(kind, bytes, first(ranks));
    EXPECT_EQ(int(shares.size()), ranks);
    return shares.back().amount;
  };
  EXPECT_NEAR(seconds(RedistributionKind::all_gather, 4), 1e-4 + bytes * 3e-9, 1e-12);
  EXPECT_NEAR(seconds(RedistributionKind::all_gather, 2), 1e-4 + bytes * 3e-9 * (1.0 / 2) / (3.0 / 4), 1e-12);
  EXPECT_NEAR(seconds(RedistributionKind::all_to_all, 4), 2e-4 + 4 * bytes * 5e-9, 1e-12)
      << "bytes of one worker, measured by those of all";
  EXPECT_TRUE(links.work_of_redistribution(RedistributionKind::all_gather, bytes, first(1)).empty());
}

TEST(ClusterLinks, ALibraryOfFlatRingsHasNoShorterWay) {
  const Cluster cluster = cluster_of(4, 4);
  const double bytes = 1e6, part = 2 * 15.0 / 16 * bytes / kFar;
  const ClusterLinks rings(cluster, {.flat_rings = true});
  EXPECT_NEAR(alone(rings.collective(RedistributionKind::all_reduce, bytes, first(16), 1), rings),
              2 * 15 * kFarLatency + part, 1e-12);
  EXPECT_NEAR(alone(rings.collective(RedistributionKind::all_reduce, bytes, first(4), 1), rings),
              2 * 3 * kNearLatency + 2 * 3.0 / 4 * bytes / kNear, 1e-12);
  const ClusterLinks any(cluster);
  EXPECT_LT(alone(any.collective(RedistributionKind::all_reduce, bytes, first(16), 1), any),
            2 * 15 * kFarLatency + part);
}

TEST(ClusterLinks, ARingIsNoFasterThanItsConnection) {
  const Cluster cluster = cluster_of(2, 1);
  const ClusterLinks links(cluster, {.connection = kFar / 4});
  EXPECT_NEAR(alone(links.collective(RedistributionKind::all_reduce, 1e6, first(2), 1), links),
              2 * kFarLatency + 4 * 1e6 / kFar, 1e-12);
  // A message uses its own connection between two ranks, without this limit.
  EXPECT_NEAR(alone(links.message(0, 1, 1e6, 1), links), kFarLatency + 1e6 / kFar, 1e-12);
  const std::vector<int> pools = links.pools_of(0);
  for (const Share& share : links.giving(1e6, first(2), 0, 1).shares)
    EXPECT_NE(std::find(pools.begin(), pools.end(), share.pool), pools.end());
}

TEST(ClusterLinks, GroupsOfOneOrNoneSendNothing) {
  const ClusterLinks links(cluster_of(2, 2));
  EXPECT_TRUE(links.collective(RedistributionKind::all_reduce, 1e6, first(1), 1).is_nothing());
  EXPECT_TRUE(links.collective(RedistributionKind::all_reduce, 1e6, {}, 1).is_nothing());
  EXPECT_TRUE(links.message(3, 3, 1e6, 1).is_nothing());
}

TEST(ClusterLinks, ASharedLinkCarriesTheBytesOfAllRanks) {
  const ClusterLinks own(cluster_of(1, 4)), shared(cluster_of(1, 4, true));
  const double bytes = 1e8;
  const double by_own = alone(own.collective(RedistributionKind::all_reduce, bytes, first(4), 1), own);
  const double by_shared = alone(shared.collective(RedistributionKind::all_reduce, bytes, first(4), 1), shared);
  EXPECT_NEAR(by_shared / by_own, 4, 1e-3);
}

/// All-reduce of S bytes as reduce-scatter in each node, all-reduce across nodes, all-gather in each node: the
/// connection of one of m nodes carries 2(m-1)/m S.
TEST(ClusterLinks, TwoLevelsAcrossNodes) {
  const ClusterLinks links(cluster_of(4, 4));
  const double bytes = 1e8;
  const double time = alone(links.collective(RedistributionKind::all_reduce, bytes, first(16), 1), links);
  EXPECT_NEAR(time, 2 * 2 * kNearLatency + 2 * 2 * kFarLatency + 2 * 3.0 / 4 * bytes / kFar, 1e-9);
}

Cluster with_nccl(Cluster cluster) {
  cluster.collectives = Collectives::nccl;
  return cluster;
}

/// NCCL has no halving and doubling: 2(n-1) rounds in a node.
TEST(ClusterLinks, NcclHasRingsInANode) {
  const ClusterLinks links(with_nccl(cluster_of(1, 8)));
  EXPECT_NEAR(alone(links.collective(RedistributionKind::all_reduce, 1e6, first(8), 1), links),
              14 * kNearLatency + 2 * 7.0 / 8 * 1e6 / kNear, 1e-12);
  EXPECT_NEAR(alone(links.collective(RedistributionKind::all_gather, 1e6, first(8), 1), links),
              7 * kNearLatency + 7.0 / 8 * 1e6 / kNear, 1e-12);
}

/// Over m nodes with g members each, a ring's 2(mg-1) rounds contain 2m messages between nodes; a tree takes 2(g-1)
/// messages in nodes and 2 log2(m) between them, and sends the tensor twice, at 0.92 of the bandwidth.
TEST(ClusterLinks, NcclTakesRingsOrTreesOverNodes) {
  const ClusterLinks links(with_nccl(cluster_of(4, 4)));
  const auto all_reduce = [&](double bytes) {
    return alone(links.collective(RedistributionKind::all_reduce, bytes, first(16), 1), links);
  };
  EXPECT_NEAR(all_reduce(1e8), 22 * kNearLatency + 8 * kFarLatency + 2 * 15.0 / 16 * 1e8 / kFar, 1e-9) << "a ring";
  EXPECT_NEAR(all_reduce(1e4), 6 * kNearLatency + 4 * kFarLatency + 2 * 1e4 / 0.92 / kFar, 1e-9) << "a tree";
  EXPECT_NEAR(alone(links.collective(RedistributionKind::reduce_scatter, 1e8, first(16), 1), links),
              11 * kNearLatency + 4 * kFarLatency + 15.0 / 16 * 1e8 / kFar, 1e-9);
}

TEST(ClusterLinks, MessagesTakeTheNetworkBetweenNodesOnly) {
  const ClusterLinks links(cluster_of(2, 2));
  EXPECT_NEAR(alone(links.message(0, 1, 1e6, 1), links), kNearLatency + 1e6 / kNear, 1e-12);
  EXPECT_NEAR(alone(links.message(1, 2, 1e6, 1), links), kFarLatency + 1e6 / kFar, 1e-12);
}

Cluster with_fabric(Cluster cluster, Fabric fabric) {
  cluster.fabric = fabric;
  return cluster;
}

/// A node's adapters share its bandwidth: one device has one adapter, all devices together have all.
TEST(ClusterLinks, ADeviceAloneHasOneRail) {
  const ClusterLinks links(with_fabric(with_nccl(cluster_of(2, 4)), {.rails = 4}));
  const double bytes = 1e8;
  EXPECT_NEAR(alone(links.message(0, 4, bytes, 1), links), kFarLatency + 4 * bytes / kFar, 1e-9);
  EXPECT_NEAR(alone(links.message(0, 4, bytes, 4), links), kFarLatency + 4 * bytes / kFar, 1e-9)
      << "the other three have their own";
  EXPECT_NEAR(alone(links.message(0, 4, bytes, 8), links), kFarLatency + 8 * bytes / kFar, 1e-9);
  const std::vector<int> pair{0, 4};
  const double of_pair = 2 * kFarLatency + 2 * 0.5 * bytes * 4 / kFar;
  EXPECT_NEAR(alone(links.collective(RedistributionKind::all_reduce, bytes, pair, 1), links), of_pair, 1e-9);
  EXPECT_NEAR(alone(links.collective(RedistributionKind::all_reduce, bytes, pair, 4), links), of_pair, 1e-9)
      << "four such pairs";
  const ClusterLinks one(with_nccl(cluster_of(2, 4)));
  for (const int alike : {1, 2})
    EXPECT_NEAR(alone(links.collective(RedistributionKind::all_reduce, bytes, first(8), alike), links),
                alone(one.collective(RedistributionKind::all_reduce, bytes, first(8), alike), one), 1e-9)
        << "a group of all devices has the node's whole bandwidth";
}

TEST(ClusterLinks, GivingUsesTheRailOfTheGiver) {
  const double bytes = 1e8;
  const ClusterLinks links(with_fabric(cluster_of(2, 4), {.rails = 4})), one(cluster_of(2, 4));
  for (const int rank : {0, 3, 6}) {
    const Demand given = links.giving(bytes, first(8), rank, 4);
    EXPECT_NEAR(alone(given, links), alone(one.giving(bytes, first(8), rank, 4), one), 1e-9);
    const std::vector<int> pools = links.pools_of(rank);
    for (const Share& share : given.shares) EXPECT_NE(std::find(pools.begin(), pools.end(), share.pool), pools.end());
  }
}

/// Switches of four nodes: a message to the next node crosses for one of four, to the fourth node for all.
TEST(ClusterLinks, BytesBetweenSwitchesShareTheirConnection) {
  const Fabric fabric{.nodes_per_switch = 4, .oversubscription = 3};
  const ClusterLinks links(with_fabric(with_nccl(cluster_of(16, 1)), fabric));
  const double bytes = 1e8, whole = bytes / kFar;
  const auto message = [&](int from, int to) { return alone(links.message(from, to, bytes, 1), links) - kFarLatency; };
  EXPECT_NEAR(message(0, 3), whole, 1e-9) << "below one switch";
  EXPECT_NEAR(message(3, 4), whole, 1e-9) << "a quarter of the nodes' bytes through a third of their bandwidth";
  EXPECT_NEAR(message(2, 4), 1.5 * whole, 1e-9);
  EXPECT_NEAR(message(0, 4), 3 * whole, 1e-9);
  EXPECT_NEAR(message(0, 8), 3 * whole, 1e-9);
  const auto gather = [&](const std::vector<int>& ranks) {
    const double n = double(ranks.size());
    return (alone(links.collective(RedistributionKind::all_gather, bytes, ranks, 1), links) - (n - 1) * kFarLatency) /
           ((n - 1) / n * whole);
  };
  EXPECT_NEAR(gather({0, 1, 2, 3}), 1, 1e-9) << "below one switch";
  EXPECT_NEAR(gather(first(16)), 1, 1e-9) << "a ring leaves each switch once, and four of its nodes share that";
  EXPECT_NEAR(gather({0, 4, 8, 12}), 3, 1e-9) << "as three other such groups, each of whose steps crosses";
  EXPECT_NEAR(gather({0, 1, 4, 5}), 1.5, 1e-9);
}

/// Several groups that share a connection take as long as the sum of their bytes, whether they are simulated one by one
/// or as one group that represents all.
TEST(ClusterLinks, OneGroupRepresentsSeveral) {
  const ClusterLinks links(cluster_of(4, 4));
  const std::vector<int> group{0, 4, 8, 12};
  const double bytes = 1e7;
  const Demand all = links.collective(RedistributionKind::all_reduce, bytes, group, 4);
  const Demand one = links.collective(RedistributionKind::all_reduce, bytes, group, 1);
  EXPECT_NEAR(alone(all, links) - all.fixed, 4 * (alone(one, links) - one.fixed), 1e-9);
}

/// The bytes that the members send one by one add up to the bytes of the collective.
TEST(ClusterLinks, EachMemberIsChargedItsPart) {
  for (const bool shared : {false, true}) {
    const ClusterLinks links(cluster_of(2, 3, shared));
    const double bytes = 6e6;
    const Demand whole = links.collective(RedistributionKind::all_gather, bytes, first(6), 1);
    std::vector<double> together(links.pools().size(), 0), parts = together;
    for (const Share& share : whole.shares) together[size_t(share.pool)] += share.amount;
    for (int rank : first(6))
      for (const Share& share : links.giving(bytes, first(6), rank, 1).shares)
        parts[size_t(share.pool)] += share.amount;
    for (size_t p = 0; p < parts.size(); ++p) EXPECT_NEAR(parts[p], together[p], 1e-6) << p << " " << shared;
  }
}

}  // namespace
}  // namespace trireme
