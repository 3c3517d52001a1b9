// Ranks that represent others: simulating fewer ranks gives the same step time.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "cost/cluster_links.h"
#include "plan/named.h"
#include "program/compile.h"
#include "sim/simulate.h"
#include "sim_support.h"
#include "zoo/zoo.h"

namespace trireme {
namespace {

Cluster cluster_of(int nodes, int devices, double bandwidth, double network) {
  Cluster cluster = Cluster::uniform(nodes * devices);
  cluster.kinds.emplace_back();
  for (int d = 0; d < cluster.size(); ++d)
    cluster.devices[size_t(d)].node = d / devices, cluster.devices[size_t(d)].kind = 0;
  cluster.nodes.assign(size_t(nodes), ClusterNode{.link = {bandwidth, 1e-6, false}});
  cluster.network = {network, 1e-5, true};
  return cluster;
}

Model small_mlp() {
  return make_model({.name = "mlp", .sample_shape = {16}, .classes = 8, .options = {{"hidden", 32}, {"depth", 4}}});
}

/// Expects that the ranks that represent others have the step of all ranks. Returns how many they are.
size_t expect_same_step(const std::string& strategy, const Model& model, const Cluster& cluster, int64_t batch) {
  const Plan plan = named_plan(strategy, model, cluster, batch, {});
  const Program program = compile(model, plan, {.private_replicas = true});
  const ClusterLinks links(cluster);
  const test_support::FlopCosts layers(model, 1e8);
  InstructionCosts all(program, model, cluster, layers, links, {.batch = batch});
  const std::vector<int> chosen = representatives(program, cluster, batch);
  InstructionCosts few(program, model, cluster, layers, links, {.batch = batch, .representatives = chosen});
  const double whole = simulate(program, model, all, links).step_seconds;
  const double folded = simulate(program, model, few, links, {.ranks = chosen}).step_seconds;
  // Slices of buckets may differ by a few elements.
  EXPECT_NEAR(folded, whole, (plan.optimizer_sharding == OptimizerSharding::none ? 1e-9 : 1e-4) * whole)
      << strategy << ", " << cluster.nodes.size() << " nodes, batch " << batch << ", " << chosen.size() << " ranks";
  return chosen.size();
}

TEST(Folding, GivesTheSameStepTime) {
  const Model model = small_mlp();
  for (const char* strategy :
       {"data=8,tensor=1,pipeline=1", "data=4,tensor=2,pipeline=1", "data=2,tensor=2,pipeline=2,micro_batches=4",
        "data=4,tensor=1,pipeline=2,micro_batches=2", "data=1,tensor=4,pipeline=2,micro_batches=4",
        "data=2,tensor=2,pipeline=2,micro_batches=4,recompute=all,recompute_communication=1,scatter_messages=1",
        "zero1", "zero3", "zero1,sharding_group=2", "zero3,sharding_group=4",
        "data=4,tensor=2,sharding=zero2,sharding_group=2"})
    for (int per_node : {2, 4, 8}) {
      Cluster cluster = cluster_of(8 / per_node, per_node, 1e8, 1e7);
      cluster.overlap = Overlap::nothing;
      expect_same_step(strategy, model, cluster, 64);
      cluster.overlap = Overlap::all;
      const size_t ranks = expect_same_step(strategy, model, cluster, 64);
      if (std::string_view(strategy).find("data=1,") == std::string_view::npos) {
        EXPECT_LT(ranks, 8u) << strategy << " " << per_node;
      }
    }
}

/// A split LSTM and global batch norm over the data axis: the layers' exchanges are counted once, for any
/// representative.
TEST(Folding, KeepsTheLayersExchanges) {
  ModelSpec words{.name = "lstm-lm",
                  .sample_shape = {6},
                  .classes = 16,
                  .options = {{"width", 8}, {"layers", 2}},
                  .task = LearningTask::language,
                  .target_shape = {6},
                  .vocabulary = 16};
  ModelSpec images{.name = "cifar-resnet18", .sample_shape = {3, 32, 32}, .classes = 8, .options = {{"width", 8}}};
  const int64_t batch = 64;
  for (const ModelSpec& spec : {words, images}) {
    const Model model = make_model(spec);
    for (const char* strategy : {"data=4,tensor=2", "data=2,tensor=2,pipeline=2,micro_batches=4", "data=8"})
      for (int per_node : {2, 4, 8}) {
        const Cluster cluster = cluster_of(8 / per_node, per_node, 1e8, 1e7);
        const Plan plan = named_plan(strategy, model, cluster, batch, {});
        const Program program = compile(model, plan, {.batch_norm = BatchNormScope::global, .private_replicas = true});
        const ClusterLinks links(cluster);
        const test_support::FlopCosts layers(model, 1e8);
        InstructionCostOptions options{.batch = batch, .batch_norm = BatchNormScope::global};
        InstructionCosts all(program, model, cluster, layers, links, options);
        const std::vector<int> chosen = options.representatives = representatives(program, cluster, batch);
        EXPECT_LT(chosen.size(), 8u) << spec.name << ", " << strategy << ", " << per_node;
        InstructionCosts few(program, model, cluster, layers, links, options);
        const double whole = simulate(program, model, all, links).step_seconds;
        EXPECT_NEAR(simulate(program, model, few, links, {.ranks = chosen}).step_seconds, whole, 1e-9 * whole)
            << spec.name << ", " << strategy << ", " << per_node << " devices a node, " << chosen.size() << " ranks";
      }
  }
}

/// Batches that do not divide evenly: replicas have unequal numbers of samples, and micro-batches too.
TEST(Folding, OfUnequalShares) {
  size_t folded = 0;
  const Model model = small_mlp();
  for (const char* strategy :
       {"data=16,tensor=1,pipeline=1", "data=8,tensor=2,pipeline=1", "data=4,tensor=2,pipeline=2,micro_batches=3",
        "data=4,tensor=1,pipeline=4,micro_batches=5,schedule=1f1b", "data=4,tensor=4,pipeline=1,micro_batches=4",
        "zero1", "zero3"})
    for (int per_node : {2, 4, 8})
      for (int64_t batch : {65, 77, 103})
        folded += 16 - expect_same_step(strategy, model, cluster_of(16 / per_node, per_node, 1e8, 1e7), batch);
  EXPECT_GT(folded, 0u);
}

TEST(Folding, IsLeftWhereNodesAreInterleaved) {
  const Model model = small_mlp();
  Cluster cluster = cluster_of(2, 4, 1e8, 1e7);
  const Program program = compile(model, named_plan("data=4,tensor=2", model, cluster, 64, {}), {});
  EXPECT_LT(representatives(program, cluster, 64).size(), 8u);
  for (int d = 4; d < 8; ++d) {
    cluster.devices[size_t(d)].node = d % 2;
    cluster.devices[size_t(d - 4)].node = d % 2;
  }
  EXPECT_EQ(representatives(program, cluster, 64).size(), 8u);
}

TEST(Folding, IsLeftWhereRanksDiffer) {
  const Model model = small_mlp();
  Cluster cluster = cluster_of(2, 4, 1e8, 1e7);
  const Program program = compile(model, named_plan("data", model, cluster, 64, {}), {.private_replicas = true});
  EXPECT_EQ(representatives(program, cluster, 64).size(), 1u);
  EXPECT_EQ(representatives(program, cluster, 65).size(), 5u)
      << "a rank has a sample more: its node, and one of the other node";
  cluster.devices[3].speed = 0.5;
  EXPECT_EQ(representatives(program, cluster, 64).size(), 8u);
}

}  // namespace
}  // namespace trireme
