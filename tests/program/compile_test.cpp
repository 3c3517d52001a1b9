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

/// What rank 0 does from its first backward instruction on: "recompute fc1..relu1", "backward fc1..relu1".
std::vector<std::string> backward_half(const Program& program, const Model& model) {
  std::vector<std::string> texts;
  for (const Instruction& i : program.instructions(0)) {
    const bool starts = i.code == OpCode::recompute || i.code == OpCode::backward;
    const bool counts = starts || i.code == OpCode::redistribute || i.code == OpCode::redistribute_again;
    if (counts && (starts || !texts.empty())) texts.push_back(program.describe(i, model));
  }
  return texts;
}

/// A recomputed run with its communication: the whole run is restored, in forward order, before its backward begins.
TEST(Recompute, GoesOnOverRedistributionsWherePlanSays) {
  const Model model = mlp();
  Plan plan = megatron(model, 2);
  for (const char* layer : {"fc1", "relu1", "fc2", "relu2", "fc3"})
    plan.layers[size_t(model.find(layer))].recompute = "all";
  EXPECT_EQ(backward_half(compile(model, plan, {}), model),
            (std::vector<std::string>{"backward loss", "redistribute gradient of fc3 (slice)", "recompute fc3",
                                      "backward fc3", "redistribute gradient of relu2 (all_reduce)", "recompute relu2",
                                      "backward relu2", "recompute fc1..fc2", "backward fc1..fc2"}));
  plan.recompute_communication = true;
  const Program program = compile(model, plan, {});
  EXPECT_EQ(backward_half(program, model),
            (std::vector<std::string>{"backward loss", "redistribute gradient of fc3 (slice)", "recompute fc1..fc2",
                                      "redistribute again fc2 (all_reduce)", "recompute relu2", "recompute fc3",
                                      "backward fc3", "redistribute gradient of relu2 (all_reduce)", "backward relu2",
                                      "backward fc1..fc2"}));
  ASSERT_EQ(program.recomputed_runs.size(), 1u);
  const RecomputedRun& run = program.recomputed_runs[0];
  ASSERT_EQ(run.outside.size(), 1u) << "only the data come from outside";
  EXPECT_TRUE(program.values[size_t(run.outside[0])].loaded);
}

/// data [6] -> two stages of 2 tensor ranks that hold everything whole.
Plan two_stages_of_two(const Model& model) {
  Plan plan = plan_for(model, "tensor=2,pipeline=2,micro_batches=1", 4);
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id)
    if (model.node(id).name != "fc1") plan.layers[size_t(id)].split = "replicate";
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id)
    plan.layers[size_t(id)].stage = id <= model.find("relu1") ? 0 : 1;
  return plan;
}

/// Elements that rank 0 sends to rank 2 in forward and gets back in backward.
std::pair<int64_t, int64_t> elements_between(const Program& program, const Model& model) {
  std::pair<int64_t, int64_t> elements{0, 0};
  for (const Instruction& i : program.instructions(0)) {
    const RedistributionRole role = description_of(i.code).role;
    if (role != RedistributionRole::send && role != RedistributionRole::receive) continue;
    const RedistributionEnds ends = ends_of(program.redistributions[size_t(i.index)], program, i.adjoint);
    Shape shape = model.node(program.values[size_t(program.redistributions[size_t(i.index)].from)].node).sample_shape;
    shape.insert(shape.begin(), 1);
    (i.adjoint ? elements.second : elements.first) += element_count(shape_of(ends.to.box_of(i.adjoint ? 0 : 2, shape)));
  }
  return elements;
}

TEST(Messages, InSlicesAreGatheredByTheNextStage) {
  const Model model = mlp();
  Plan plan = two_stages_of_two(model);
  const Program whole = compile(model, plan, {});
  const int64_t width = model.node(model.find("relu1")).sample_shape[0];
  EXPECT_EQ(elements_between(whole, model), std::pair(width, width));
  plan.scatter_messages = true;
  const Program slices = compile(model, plan, {});
  EXPECT_EQ(elements_between(slices, model), std::pair(width / 2, width / 2));
  std::vector<std::string> texts;
  for (const int rank : {0, 2})
    for (const Instruction& i : slices.instructions(rank))
      if (description_of(i.code).operand == Operand::redistribution) texts.push_back(slices.describe(i, model));
  EXPECT_EQ(texts, (std::vector<std::string>{
                       "redistribute fc1 (all_gather)", "redistribute relu1 (slice)", "send relu1",
                       "receive gradient of relu1", "redistribute gradient of relu1 (all_gather)",
                       "redistribute gradient of fc1 (slice)", "receive relu1", "redistribute relu1 (all_gather)",
                       "redistribute gradient of relu1 (slice)", "send gradient of relu1"}));
}

/// Readers of one value: whole in the next stage, in slices in its own. They share one slicing, which runs once.
TEST(Messages, InSlicesAreSharedWithReadersOfSlices) {
  const Model model = make_model({"skip", {6}, 4, {{"hidden", 8}}});
  Plan plan = plan_for(model, "tensor=2,pipeline=2,micro_batches=1", 4);
  const NodeId start = model.find("relu0"), join = model.find("join");
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
    plan.layers[size_t(id)].split = "replicate";
    plan.layers[size_t(id)].stage = id < join ? 0 : 1;
  }
  plan.scatter_messages = true;
  for (const NodeId reader : model.consumers(start))
    if (reader != join) plan.layers[size_t(reader)].split = "rows";
  const Program program = compile(model, plan, {});
  std::map<int, int> executed;
  for (const Instruction& i : program.instructions(0))
    if (i.code == OpCode::redistribute && !i.adjoint) ++executed[i.index];
  for (const auto& [redistribution, times] : executed) EXPECT_EQ(times, 1) << redistribution;
  // Each redistribution that reads a value on rank 0 is executed there, so that the value is released.
  for (RedistributionId m = 0; m < RedistributionId(program.redistributions.size()); ++m) {
    const Redistribution& r = program.redistributions[size_t(m)];
    if (!r.redistributes_forward || r.crosses_stages) continue;
    if (program.values[size_t(r.from)].layout.mesh.index_of(0) < 0) continue;
    EXPECT_EQ(executed[m], 1) << "redistribution " << m;
  }
}

/// A linear layer behind a gather: the gather runs again in backward, the layer does not.
TEST(Recompute, GathersAgainForALinearLayer) {
  const Model model = mlp();
  Plan plan = megatron(model, 2);
  plan.layers[size_t(model.find("relu2"))].split = "channels";
  plan.layers[size_t(model.find("fc3"))].recompute = "fc3";
  plan.recompute_communication = true;
  const Program program = compile(model, plan, {});
  ASSERT_EQ(program.recomputed_runs.size(), 1u);
  const RecomputedRun& run = program.recomputed_runs[0];
  EXPECT_EQ(run.redistributions.size(), 1u);
  ASSERT_EQ(run.outside.size(), 1u);
  EXPECT_EQ(program.values[size_t(run.outside[0])].node, model.find("relu2"));
  EXPECT_TRUE(program.values[size_t(run.outside[0])].layout.tensor.is_shard());
  ASSERT_EQ(run.restored.size(), 1u);
  EXPECT_EQ(program.ops[size_t(run.restored[0])].node, model.find("fc3"));
  EXPECT_TRUE(program.is_restored(run.segments[0], run.restored[0]));
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
