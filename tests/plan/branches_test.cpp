// Parallel branches: compared with their definition, placed by longest processing time.
#include "plan/branches.h"
#include "plan/named.h"

#include <fmt/format.h>

#include <random>
#include <set>

#include "../base/expect_error.h"
#include "trireme/layers/add.h"
#include "trireme/layers/relu.h"
#include "trireme/layers/softmax_cross_entropy.h"
#include "zoo/zoo.h"

namespace trireme {
namespace {

/// A graph of ReLUs and additions with random inputs; no layer reads some of the outputs.
Model random_graph(std::mt19937_64& random) {
  ModelBuilder b("random");
  std::vector<NodeId> nodes{b.input("data", {4})};
  const NodeId target = b.input("target", {});
  const int layers = 3 + int(random() % 10);
  // Inputs are among the last four nodes, so that branches appear.
  std::set<NodeId> used;
  const auto earlier = [&] {
    return *used.insert(nodes[nodes.size() - 1 - size_t(random() % std::min<uint64_t>(nodes.size(), 4))]).first;
  };
  for (int i = 0; i < layers; ++i) {
    const std::string name = fmt::format("n{}", i);
    if (random() % 2) nodes.push_back(b.layer<Relu>({earlier()}, name));
    else nodes.push_back(b.layer<Add>({earlier(), earlier()}, name));
  }
  std::set<NodeId> open(nodes.begin(), nodes.end());  // nodes whose output no layer reads yet
  for (NodeId id : used) open.erase(id);
  if (open.size() > 1 && random() % 2) open.erase(open.begin());
  while (open.size() > 1) {
    const NodeId first = *open.begin(), second = *std::next(open.begin());
    open.erase(first);
    open.erase(second);
    nodes.push_back(*open.insert(b.layer<Add>({first, second}, "end" + std::to_string(open.size()))).first);
  }
  return b.finish(nodes.back(), b.layer<SoftmaxCrossEntropy>({nodes.back(), target}, "loss"));
}

/// True if the loss can be reached from `from`.
bool is_live(const Model& model, NodeId from) {
  const auto& consumers = model.consumers(from);
  return from == model.loss() ||
         std::any_of(consumers.begin(), consumers.end(), [&](NodeId id) { return is_live(model, id); });
}

/// Live nodes that can be reached from `from` without entering `wall`.
std::set<NodeId> reachable(const Model& model, NodeId from, NodeId wall) {
  std::set<NodeId> found;
  std::vector<NodeId> todo{from};
  while (!todo.empty()) {
    const NodeId id = todo.back();
    todo.pop_back();
    for (NodeId next : model.consumers(id))
      if (next != wall && is_live(model, next) && found.insert(next).second) todo.push_back(next);
  }
  return found;
}

bool is_end(const Model& model, NodeId id) { return id == model.loss(); }

/// The first node on every path from `fork` to an end; -1: none.
NodeId join_of(const Model& model, NodeId fork) {
  for (NodeId wall : reachable(model, fork, -1)) {
    bool gets_around = is_end(model, fork);
    for (NodeId id : reachable(model, fork, wall)) gets_around = gets_around || is_end(model, id);
    if (!gets_around) return wall;
  }
  return -1;
}

/// Nodes of `inside` that are connected with `member` over edges in either direction.
std::vector<NodeId> group_of(const Model& model, const std::set<NodeId>& inside, NodeId member) {
  std::set<NodeId> group{member};
  for (size_t before = 0; before != group.size();) {
    before = group.size();
    for (NodeId id : inside)
      for (NodeId input : model.node(id).inputs)
        if (inside.contains(input) && (group.contains(id) || group.contains(input))) group.insert({id, input});
  }
  return {group.begin(), group.end()};
}

std::vector<BranchRegion> by_definition(const Model& model) {
  std::vector<BranchRegion> regions;
  for (NodeId fork = 0; fork < NodeId(model.nodes().size()); ++fork) {
    const auto& consumers = model.consumers(fork);
    const auto readers =
        std::count_if(consumers.begin(), consumers.end(), [&](NodeId id) { return is_live(model, id); });
    if (readers < 2 || (!regions.empty() && fork < regions.back().join)) continue;
    const NodeId join = join_of(model, fork);
    if (join < 0) continue;
    const auto inside = reachable(model, fork, join);
    std::set<std::vector<NodeId>> groups;
    for (NodeId id : inside) groups.insert(group_of(model, inside, id));
    if (groups.size() >= 2) regions.push_back({fork, join, {groups.begin(), groups.end()}});
  }
  return regions;
}

TEST(FindBranches, AgreesWithTheDefinition) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  int found = 0;
  for (int round = 0; round < 300; ++round) {
    const Model model = random_graph(random);
    const auto actual = find_branches(model), expected = by_definition(model);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t r = 0; r < actual.size(); ++r) {
      EXPECT_EQ(actual[r].fork, expected[r].fork);
      EXPECT_EQ(actual[r].join, expected[r].join);
      EXPECT_EQ(actual[r].branches, expected[r].branches);
    }
    found += !actual.empty();
  }
  EXPECT_GT(found, 10);
}

TEST(FindBranches, OfKnownModels) {
  EXPECT_TRUE(find_branches(make_model({"mlp", {6}, 4, {}})).empty());
  // A skip connection is no branch; the blocks with a projection are branches.
  const Model resnet = make_model({"resnet18", {3, 32, 32}, 10, {{"width", 8}}});
  const auto blocks = find_branches(resnet);
  ASSERT_EQ(blocks.size(), 3u);
  for (const BranchRegion& block : blocks) EXPECT_EQ(block.branches.size(), 2u);
  const Model inception = make_model({"inception", {3, 32, 32}, 10, {{"width", 8}}});
  const auto regions = find_branches(inception);
  ASSERT_EQ(regions.size(), 2u);
  for (const BranchRegion& region : regions) {
    ASSERT_EQ(region.branches.size(), 4u);
    for (const auto& branch : region.branches) {
      const std::string name = inception.node(branch.front()).name, prefix = name.substr(0, name.find("branch") + 7);
      for (NodeId id : branch)
        EXPECT_TRUE(inception.node(id).name.starts_with(prefix)) << inception.node(id).name << " " << prefix;
    }
  }
}

/// Two losses read the target: it is no fork. The last blocks are beside the auxiliary head.
TEST(FindBranches, OfAModelWithTwoLosses) {
  const Model model = make_model({"inception-v3", {3, 299, 299}, 10, {}});
  const auto regions = find_branches(model);
  ASSERT_EQ(regions.size(), 9u);
  for (size_t r = 0; r + 1 < regions.size(); ++r) EXPECT_GE(regions[r].branches.size(), 3u);
  EXPECT_EQ(model.node(regions.back().fork).name, "Mixed_6e.concat");
  EXPECT_EQ(regions.back().join, model.loss());
}

TEST(PlaceBranches, LongestFirstToTheLeastLoaded) {
  const Model model = make_model({"mlp", {6}, 4, {}});  // only its number of nodes matters
  const BranchRegion region{0, 5, {{1}, {2}, {3}, {4}}};
  const auto place = [&](std::vector<double> weights, int workers) {
    LayerSeconds seconds(model.nodes().size(), 0.0);
    std::copy(weights.begin(), weights.end(), seconds.begin() + 1);
    const auto all = place_branches({region}, model, workers, seconds);
    return std::vector<int>(all.begin() + 1, all.begin() + 5);
  };
  EXPECT_EQ(place({3, 5, 4, 3}, 1), (std::vector<int>{0, 0, 0, 0}));
  EXPECT_EQ(place({3, 5, 4, 3}, 2), (std::vector<int>{1, 0, 1, 0}));  // 5 | 4, then 3 | 4 + 3, then 5 + 3
  EXPECT_EQ(place({3, 5, 4, 3}, 3), (std::vector<int>{2, 0, 1, 2}));
  EXPECT_EQ(place({3, 5, 4, 3}, 4), (std::vector<int>{2, 0, 1, 3}));
  EXPECT_EQ(place({0, 5, 0, 0}, 3), (std::vector<int>{1, 0, 2, 1}));  // every worker gets a branch, even of no weight
}

TEST(BranchesPlan, InceptionOnTwoAndThreeWorkers) {
  const Model model = make_model({"inception", {3, 32, 32}, 10, {{"width", 8}}});
  for (int devices : {1, 2, 3, 4}) {
    const Plan plan = named_plan("branches", model, Cluster::uniform(devices), 32, {});
    EXPECT_EQ(int(plan.stages.size()), devices);
    EXPECT_EQ(plan.micro_batches, 1);
    for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
      const std::string& name = model.node(id).name;
      const bool outside = name.find(".branch") == name.npos,
                 heaviest = name.find(".branch2") != name.npos;  // 3x3 convolutions
      EXPECT_TRUE(plan.layers[size_t(id)].stage == 0 || (!outside && !heaviest)) << name;
    }
    EXPECT_EQ(plan.in_short(model), devices == 1 ? "one device" : fmt::format("{} stages", devices));
  }
}

TEST(BranchesPlan, SecondsDecide) {
  const Model model = make_model({"inception", {3, 32, 32}, 10, {{"width", 8}}});
  LayerSeconds seconds(model.nodes().size(), 0.0);
  for (NodeId id = 0; id < NodeId(seconds.size()); ++id)
    seconds[size_t(id)] = model.node(id).name.find("branch4") != std::string::npos ? 100 : 1;
  const Plan plan = named_plan("branches,micro_batches=2", model, Cluster::uniform(2), 32, seconds);
  EXPECT_EQ(plan.micro_batches, 2);
  for (NodeId id = model.input_count(); id < NodeId(seconds.size()); ++id) {
    const std::string& name = model.node(id).name;
    const bool outside = name.find(".branch") == name.npos, heaviest = name.find(".branch4") != name.npos;
    EXPECT_EQ(plan.layers[size_t(id)].stage, outside || heaviest ? 0 : 1) << name;
  }
}

TEST(BranchesPlan, OfSeveralReplicas) {
  const Model model = make_model({"inception", {3, 32, 32}, 10, {{"width", 8}}});
  const Plan one = named_plan("branches", model, Cluster::uniform(2), 8, {}), all = replicated(one, 3);
  EXPECT_EQ(all.devices, 6);
  EXPECT_EQ(all.stages, (std::vector<std::vector<int>>{{0, 2, 4}, {1, 3, 5}}));
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
    EXPECT_EQ(all.layers[size_t(id)].stage, one.layers[size_t(id)].stage);
    EXPECT_EQ(all.layers[size_t(id)].data, 3);
  }
  validate(all, model, 24, "three replicas");
  EXPECT_EQ(replicated(one, 1), one);
}

TEST(BranchesPlan, Errors) {
  const Model inception = make_model({"inception", {3, 32, 32}, 10, {{"width", 8}}}),
              mlp = make_model({"mlp", {6}, 4, {}});
  expect_error(Blame::user,
               {"strategy branches", "5 devices", "the widest block of model inception has 4 branches", "at most 4"},
               [&] { named_plan("branches", inception, Cluster::uniform(5), 32, {}); });
  expect_error(Blame::user, {"strategy branches", "model mlp", "no parallel branches"},
               [&] { named_plan("branches", mlp, Cluster::uniform(2), 32, {}); });
  expect_error(Blame::user, {"2 chunks", "pipeline"},
               [&] { named_plan("branches,chunks=2", inception, Cluster::uniform(2), 32, {}); });
}

}  // namespace
}  // namespace trireme
