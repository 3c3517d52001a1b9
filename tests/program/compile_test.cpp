// Programs: the order of work, the redistributions between layouts, their kinds and bytes.
#include "program/compile.h"

#include <map>

#include "../base/expect_error.h"
#include "plan/named.h"
#include "program/check.h"
#include "tensor/redistribute.h"
#include "trireme/layers/conv2d.h"
#include "trireme/layers/flatten.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/max_pool2d.h"
#include "trireme/layers/max_pool_indices.h"
#include "trireme/layers/max_unpool2d.h"
#include "trireme/layers/softmax_cross_entropy.h"
#include "trireme/schedule.h"
#include "zoo/zoo.h"

namespace trireme {
namespace {

Model mlp() { return make_model({"mlp", {6}, 4, {{"hidden", 8}}}); }

Plan plan_for(const Model& model, const std::string& name, int devices) {
  return named_plan(name, model, Cluster::uniform(devices), 16, {});
}

int count(const std::vector<Instruction>& list, OpCode code, int adjoint = -1) {
  return int(std::count_if(list.begin(), list.end(), [&](const Instruction& i) {
    return i.code == code && (adjoint < 0 || i.adjoint == bool(adjoint));
  }));
}

TEST(Compile, UnknownSchedule) {
  const Model model = mlp();
  Plan plan = plan_for(model, "single", 1);
  plan.schedule = "zigzag";
  expect_error(Blame::user, {"schedule \"zigzag\"", "is not known", "gpipe"}, [&] { compile(model, plan, {}); });
}

/// p * m forward and backward tasks, each once (Huang et al., "GPipe").
TEST(Compile, EveryMicroBatchOncePerSegment) {
  const Model model = mlp();
  for (int p : {1, 2, 3})
    for (int m : {1, 2, 5}) {
      const Program program = compile(
          model, plan_for(model, "pipeline=" + std::to_string(p) + ",micro_batches=" + std::to_string(m), p), {});
      EXPECT_EQ(program.micro_batches, m);
      std::map<std::tuple<OpCode, int, int>, int> seen;
      for (const auto& list : program.lists)
        for (const Instruction& i : list)
          if (i.code == OpCode::forward || i.code == OpCode::backward) ++seen[{i.code, i.index, i.micro_batch}];
      EXPECT_EQ(seen.size(), program.segments.size() * size_t(2 * m));
      for (const auto& [key, times] : seen) EXPECT_EQ(times, 1);
      // One boundary per pair of neighbours, with sends and receives in forward and backward.
      int sends = 0, receives = 0;
      for (const auto& list : program.lists) {
        sends += count(list, OpCode::send);
        receives += count(list, OpCode::receive);
      }
      EXPECT_EQ(sends, 2 * (p - 1) * m);
      EXPECT_EQ(receives, sends);
    }
}

TEST(Compile, SingleDeviceIsOneSegmentAndNoCommunication) {
  const Model model = mlp();
  const Program program = compile(model, plan_for(model, "single", 1), {});
  ASSERT_EQ(program.list_of_rank.size(), 1u);
  std::vector<OpCode> codes;
  for (const Instruction& i : program.instructions(0)) codes.push_back(i.code);
  EXPECT_EQ(codes, (std::vector<OpCode>{OpCode::load_batch, OpCode::forward, OpCode::backward, OpCode::reduce_gradients,
                                        OpCode::optimizer_step}));
  EXPECT_EQ(program.describe(program.instructions(0)[1], model), "forward fc1..loss");
}

TEST(Compile, EvaluationIsForwardOnly) {
  const Model model = mlp();
  const Program program = compile(model, plan_for(model, "data=2,pipeline=2,micro_batches=3", 4), {.training = false});
  for (const auto& list : program.lists)
    for (const Instruction& i : list) {
      EXPECT_NE(i.code, OpCode::backward);
      EXPECT_NE(i.code, OpCode::optimizer_step);
      EXPECT_FALSE(i.adjoint);
    }
}

TEST(Compile, ClippingComesBetweenReductionAndUpdate) {
  const Model model = mlp();
  const Program program = compile(model, plan_for(model, "data", 2), {.clip_gradients = true});
  EXPECT_TRUE(program.keeps_gradients);
  for (const auto& list : program.lists) {
    ASSERT_EQ(count(list, OpCode::clip_gradients), 1);
    auto clip = std::find_if(list.begin(), list.end(), [](const auto& i) { return i.code == OpCode::clip_gradients; });
    EXPECT_EQ(count({list.begin(), clip}, OpCode::reduce_gradients), int(program.buckets.size()));
    EXPECT_EQ(count({clip, list.end()}, OpCode::optimizer_step), int(program.buckets.size()));
  }
}

TEST(Compile, EveryLayerASegmentForProfiling) {
  const Model model = mlp();
  const Program program = compile(model, plan_for(model, "single", 1), {.segment_per_layer = true});
  EXPECT_EQ(program.segments.size(), program.ops.size());
}

/// Megatron's pair over `degree` workers: fc1 split by columns, fc2 by rows.
Plan megatron(const Model& model, int degree) {
  Plan plan = plan_for(model, "tensor", degree);
  const std::map<std::string, std::string> splits{{"fc1", "columns"},     {"relu1", "channels"}, {"fc2", "rows"},
                                                  {"relu2", "replicate"}, {"fc3", "columns"},    {"loss", "replicate"}};
  for (const auto& [layer, split] : splits) plan.layers[size_t(model.find(layer))].split = split;
  return plan;
}

std::vector<RedistributionKind> kinds(const Program& program, bool adjoint) {
  std::vector<RedistributionKind> found;
  for (const Instruction& i : program.instructions(0))
    if (i.code == OpCode::redistribute && i.adjoint == adjoint) {
      RedistributionEnds ends = ends_of(program.redistributions[size_t(i.index)], program, adjoint);
      found.push_back(classify(ends.from, ends.to));
    }
  return found;
}

/// Shoeybi et al.: a column/row pair needs one all-reduce in forward (after the rows) and one in backward (before the
/// columns).
TEST(Redistributions, MegatronsPair) {
  using enum RedistributionKind;
  const Model small = mlp();  // fc1 reads the data, which needs no gradient: no all-reduce in its backward
  const Program first = compile(small, megatron(small, 2), {});
  EXPECT_EQ(kinds(first, false), (std::vector{all_reduce, all_gather}));
  // Backward: the input gradient of fc3 is summed; the gradient of a gathered value is sliced without communication.
  EXPECT_EQ(kinds(first, true), (std::vector{slice, all_reduce}));

  const Model deep = make_model({"mlp", {6}, 4, {{"hidden", 8}, {"depth", 4}}});
  Plan plan = plan_for(deep, "tensor", 2);
  const std::map<std::string, std::string> splits{{"fc1", "replicate"},  {"relu1", "replicate"}, {"fc2", "columns"},
                                                  {"relu2", "channels"}, {"fc3", "rows"},        {"relu3", "replicate"},
                                                  {"fc4", "replicate"},  {"relu4", "replicate"}, {"fc5", "replicate"},
                                                  {"loss", "replicate"}};
  for (const auto& [layer, split] : splits) plan.layers[size_t(deep.find(layer))].split = split;
  const Program pair = compile(deep, plan, {});
  EXPECT_EQ(kinds(pair, false), std::vector{all_reduce});
  EXPECT_EQ(kinds(pair, true), std::vector{all_reduce});
}

TEST(Redistributions, DescribesAnAllReduce) {
  const Model model = mlp();
  for (int degree : {2, 4}) {
    const Program program = compile(model, megatron(model, degree), {});
    for (const Instruction& i : program.instructions(0)) {
      if (i.code != OpCode::redistribute || i.adjoint) continue;
      const Redistribution& move = program.redistributions[size_t(i.index)];
      RedistributionEnds ends = ends_of(move, program, false);
      if (classify(ends.from, ends.to) != RedistributionKind::all_reduce) continue;
      EXPECT_EQ(program.describe(i, model), "redistribute fc2 (all_reduce)");
    }
  }
}

TEST(Redistributions, DataParallelHasNone) {
  const Model model = mlp();
  const Program program = compile(model, plan_for(model, "data", 4), {});
  EXPECT_TRUE(program.redistributions.empty());
}

/// A skip connection goes directly from its producer to its consumer; the stages between do not see it.
TEST(Redistributions, SkipConnectionsSkipStages) {
  const Model model = make_model({"skip", {6}, 4, {{"hidden", 8}}});
  Plan plan = plan_for(model, "pipeline=3,micro_batches=2", 3);
  const NodeId start = model.find("relu0"), join = model.find("join");
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id)
    plan.layers[size_t(id)].stage = id <= start ? 0 : id < join ? 1 : 2;
  const Program program = compile(model, plan, {});
  int direct = 0;
  for (RedistributionId m = 0; m < RedistributionId(program.redistributions.size()); ++m) {
    const Redistribution& move = program.redistributions[size_t(m)];
    const Value& to = program.values[size_t(move.to)];
    if (program.values[size_t(move.from)].node != start || to.layout.mesh.workers != std::vector<int>{2}) continue;
    ++direct;
    auto touches = [&](int rank) {
      return std::count_if(
          program.instructions(rank).begin(), program.instructions(rank).end(), [&](const Instruction& i) {
            return i.index == m &&
                   (i.code == OpCode::send || i.code == OpCode::receive || i.code == OpCode::redistribute);
          });
    };
    EXPECT_EQ(touches(0), 4);  // two micro-batches, forward and backward
    EXPECT_EQ(touches(1), 0);
    EXPECT_EQ(touches(2), 4);
  }
  EXPECT_EQ(direct, 1);
}

/// Two consumers that need the same layout share one redistribution.
TEST(Redistributions, AreSharedByConsumersOfOneLayout) {
  const Model model = make_model({"skip", {6}, 4, {{"hidden", 8}}});
  Plan plan = plan_for(model, "pipeline=2,micro_batches=1", 2);
  const NodeId start = model.find("relu0");
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id)
    plan.layers[size_t(id)].stage = id <= start ? 0 : 1;
  const Program program = compile(model, plan, {});
  EXPECT_EQ(count(program.instructions(0), OpCode::send, false), 1);
  EXPECT_EQ(count(program.instructions(0), OpCode::receive, true), 1);
}

TEST(Redistributions, TargetsAreLoadedWhereTheyAreNeeded) {
  const Model model = mlp();
  const Program program = compile(model, plan_for(model, "pipeline=3,micro_batches=2", 3), {});
  EXPECT_EQ(count(program.instructions(0), OpCode::load_batch), 2);
  EXPECT_EQ(count(program.instructions(1), OpCode::load_batch), 0);
  EXPECT_EQ(count(program.instructions(2), OpCode::load_batch), 2);
}

TEST(Buffers, AreSharedBeforeEvaluation) {
  const Model model = make_model({"cifar-resnet18", {3, 8, 8}, 4, {{"width", 4}}});
  auto synchronizations = [&](const char* name, int devices, bool training) {
    return count(compile(model, plan_for(model, name, devices), {.training = training}).instructions(0),
                 OpCode::synchronize_buffers);
  };
  EXPECT_EQ(synchronizations("data", 2, false), 20);
  EXPECT_EQ(synchronizations("data", 2, true), 0);
  EXPECT_EQ(synchronizations("single", 1, false), 0);
}

/// Positions of maxima are sent to a later stage, but no gradient comes back. Layers that only they depend on are not
/// trained.
TEST(Compile, PositionsOfMaximaHaveNoGradient) {
  ModelBuilder b("unpool");
  const NodeId data = b.input("data", {2, 4, 4}), target = b.input("target", {});
  const NodeId wide = b.layer<Conv2d>({data}, "wide", Conv2dOptions{.in = 2, .out = 4});
  const NodeId guide = b.layer<Conv2d>({data}, "guide", Conv2dOptions{.in = 2, .out = 4});
  const NodeId where = b.layer<MaxPoolIndices>({guide}, "where", 2);
  const NodeId pooled = b.layer<MaxPool2d>({wide}, "pool");
  const NodeId inner = b.layer<Conv2d>({pooled}, "inner", Conv2dOptions{.in = 4, .out = 4});
  const NodeId large = b.layer<MaxUnpool2d>({inner, where}, "unpool", MaxUnpool2dOptions{.window = 2});
  const NodeId logits = b.layer<Linear>({b.layer<Flatten>({large}, "flatten")}, "fc", 64, 4);
  const Model model = b.finish(logits, b.layer<SoftmaxCrossEntropy>({logits, target}, "loss"));
  Plan plan = plan_for(model, "pipeline=2,micro_batches=2", 2);
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id)
    plan.layers[size_t(id)].stage = id >= inner ? 1 : 0;
  validate(plan, model, 16, "test");
  const Program program = compile(model, plan, {});
  int forwards = 0, of_pool = 0;
  for (const auto& list : program.lists)
    for (const Instruction& i : list) {
      if (i.code != OpCode::send) continue;
      const NodeId node = program.values[size_t(program.redistributions[size_t(i.index)].from)].node;
      forwards += node == where && !i.adjoint;
      of_pool += node == pooled && i.adjoint;
      EXPECT_FALSE(node == where && i.adjoint);
    }
  EXPECT_EQ(forwards, 2);
  EXPECT_EQ(of_pool, 2);
  for (const ProgramParameter& parameter : program.parameters)
    EXPECT_EQ(parameter.trainable, !parameter.spec.name.starts_with("guide")) << parameter.spec.name;
}

}  // namespace
}  // namespace trireme
