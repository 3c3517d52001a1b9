// The checker accepts programs that end. It refuses spoilt programs and names the ranks and instructions that wait for
// each other.
#include "program/check.h"

#include <fmt/format.h>

#include <optional>

#include "../base/expect_error.h"
#include "plan/named.h"
#include "program/compile.h"
#include "schedule/kinds.h"
#include "zoo/zoo.h"

namespace trireme {
namespace {

struct Case {
  Model model;
  Program program;

  /// Gives the rank its own copy of its list and returns it.
  std::vector<Instruction>& list(int rank) {
    program.lists.push_back(program.instructions(rank));
    program.list_of_rank[size_t(rank)] = int(program.lists.size()) - 1;
    return program.lists.back();
  }
};

Case make(const std::string& degrees, int devices, CompileOptions options = {}, const std::string& schedule = "gpipe") {
  Model model = make_model({"mlp", {6}, 4, {{"hidden", 8}}});
  Plan plan = named_plan(degrees, model, Cluster::uniform(devices), 16, {});
  plan.schedule = schedule;
  Program program = compile(model, plan, options);
  return {std::move(model), std::move(program)};
}

void refuse(const Case& c, const std::vector<std::string>& parts) {
  std::vector<std::string> all = parts;
  all.push_back("spoilt plan");
  Program program = c.program;
  complete(program, c.model);
  expect_error(Blame::user, all, [&] { check_program(program, c.model, "spoilt plan"); });
}

std::vector<Instruction>::iterator find(std::vector<Instruction>& list, OpCode code, bool adjoint = false) {
  return std::find_if(list.begin(), list.end(),
                      [&](const Instruction& i) { return i.code == code && i.adjoint == adjoint; });
}

/// nullopt if the strategy does not fit the model.
std::optional<Plan> plan_if_suitable(const std::string& strategy, const Model& model) {
  try {
    return named_plan(strategy, model, Cluster::uniform(4), 16, {});
  } catch (const Error& error) {
    EXPECT_EQ(int(error.blame()), int(Blame::user)) << error.what();
    return std::nullopt;
  }
}

TEST(Check, AcceptsEveryNamedPlan) {
  int plans = 0;
  for (const char* name : {"mlp", "skip", "tied-mlp", "dropout-mlp"}) {
    const Model model = make_model({name, {6}, 4, {{"hidden", 8}}});
    for (const std::string& strategy : known_strategies()) {
      const auto plan = plan_if_suitable(strategy, model);
      if (!plan) continue;
      ++plans;
      for (bool clip : {false, true})
        EXPECT_NO_THROW(compile(model, *plan, {.clip_gradients = clip})) << name << " " << strategy;
    }
  }
  EXPECT_GE(plans, 20);
  const Model norm = make_model({"cifar-resnet18", {3, 8, 8}, 4, {{"width", 4}}});
  for (const std::string& strategy : known_strategies()) {
    const auto plan = plan_if_suitable(strategy, norm);
    if (!plan) continue;
    for (bool training : {false, true})
      EXPECT_NO_THROW(compile(norm, *plan, {.training = training, .batch_norm = BatchNormScope::global})) << strategy;
  }
}

/// Every schedule with every way to hold the parameters, with and without clipping. The tied parameter lies on the
/// first and the last stage.
TEST(Check, AcceptsEveryScheduleAndSharding) {
  for (const char* name : {"mlp", "tied-mlp"}) {
    const Model model = make_model({name, {6}, 4, {{"hidden", 8}}});
    for (const Schedule& schedule : known_schedules()) {
      const bool chunked = schedule.chunked;
      const int micro_batches = schedule.name == "pipedream" ? 1 : 4;
      Plan plan = named_plan(fmt::format("data=2,pipeline={},micro_batches={}", chunked ? 4 : 2, micro_batches), model,
                             Cluster::uniform(chunked ? 8 : 4), 16, {});
      if (chunked) plan.stages = {{0, 1}, {2, 3}, {0, 1}, {2, 3}};
      if (schedule.v_shaped) std::swap(plan.stages[2], plan.stages[3]);
      plan.devices = 4;
      plan.schedule = schedule.name;
      using enum OptimizerSharding;
      for (OptimizerSharding sharding : {none, zero1, zero2, zero3}) {
        if (!schedule.flushes && sharding >= zero2) continue;  // refused: old versions of weights must be whole
        plan.optimizer_sharding = sharding;
        for (bool clip : {false, true})
          for (bool copies : {false, true})
            EXPECT_NO_THROW(compile(model, plan, {.clip_gradients = clip, .private_replicas = copies}))
                << name << " " << schedule.name << " " << name_of(sharding) << " clip " << clip << " copies " << copies;
      }
    }
  }
}

/// Neighbouring stages of zero-bubble-v are on the same workers, which exchange no message.
TEST(Check, RefusesStagesOfAWorkerInTheWrongOrder) {
  const Model model = make_model({"mlp", {6}, 4, {{"hidden", 8}, {"depth", 6}}});
  const auto swap = [](Plan plan, int a, int b) {
    for (LayerPlan& layer : plan.layers) layer.stage = layer.stage == a ? b : layer.stage == b ? a : layer.stage;
    return plan;
  };
  const Plan turn = swap(named_plan("zero-bubble-v,micro_batches=4", model, Cluster::uniform(2), 16, {}), 1, 2);
  Plan alone = swap(named_plan("gpipe,micro_batches=4", model, Cluster::uniform(2), 16, {}), 0, 1);
  alone.stages = {{0}, {0}};
  alone.devices = 1;
  for (const Plan& plan : {turn, alone})
    expect_error(Blame::user,
                 {"layer ", "in stage ", "which the same workers do later", "needs a result of a later one"},
                 [&] { compile(model, plan, {}); });
}

TEST(Check, RefusesUnequalNumbersOfStages) {
  const Model model = make_model({"mlp", {6}, 4, {{"hidden", 8}, {"depth", 6}}});
  Plan plan = named_plan("zero-bubble-v,micro_batches=4", model, Cluster::uniform(2), 16, {});
  plan.stages.pop_back();
  for (LayerPlan& layer : plan.layers) layer.stage = std::min(layer.stage, 2);
  expect_error(Blame::user, {"stage 2", "its workers have 2 stages, those of stage 0 have 1", "the same number"},
               [&] { compile(model, plan, {}); });
}

/// Two stages hold a tied parameter and use it at different times, the second only after the first has sent. A gather
/// that waits for both would hang: the program is refused.
TEST(Check, GathersOfATiedParameterThatWaitForEachOther) {
  Model model = make_model({"tied-mlp", {6}, 4, {{"hidden", 8}}});
  Plan plan = named_plan("data=2,pipeline=2,micro_batches=4", model, Cluster::uniform(4), 16, {});
  Case c{model, compile(model, plan, {.private_replicas = true})};
  const auto& buckets = c.program.buckets;
  const auto tied = std::find_if(buckets.begin(), buckets.end(), [](const Bucket& b) { return b.holders.size() == 4; });
  ASSERT_NE(tied, buckets.end());
  const auto id = int(tied - buckets.begin());
  for (int rank = 0; rank < 4; ++rank) {
    auto& list = c.list(rank);
    const auto first = find(list, OpCode::forward);
    list.insert(first, {{OpCode::prefetch_weights, id}, {OpCode::gather_weights, id}});
  }
  refuse(c, {"would deadlock", "gather weights bucket", "receive", "waits for rank 0"});
}

/// A pipeline of two stages without flush. Its first stage would read weights that its later update writes.
TEST(Check, WeightsThatComeTooLate) {
  Case c = make("pipeline=2,micro_batches=1", 2, {}, "pipedream");
  for (Op& op : c.program.ops) op.delay = 0;
  refuse(c, {"would deadlock", "rank 0 at instruction", "forward fc1", "batch 1) waits for rank 0"});
}

TEST(Check, DroppedSend) {
  Case c = make("pipeline=2,micro_batches=2", 2);
  auto& list = c.list(0);
  list.erase(find(list, OpCode::send));
  // Rank 1 waits for the activation, and rank 0 for the gradient that rank 1 would send later.
  refuse(c,
         {"would deadlock", "rank 0 at instruction", "receive gradient of", "rank 1 at instruction", "micro-batch 0"});
}

TEST(Check, DroppedGradientSend) {
  Case c = make("pipeline=2,micro_batches=1", 2);
  auto& list = c.list(1);
  list.erase(find(list, OpCode::send, true));
  refuse(c, {"rank 0 at instruction", "receive gradient of", "waits for rank 1", "has ended without taking part"});
}

TEST(Check, DroppedReceive) {
  Case c = make("pipeline=2,micro_batches=1", 2);
  auto& list = c.list(0);
  list.erase(find(list, OpCode::receive, true));
  refuse(c, {"rank 1 sends (send gradient of", "micro-batch 0) to rank 0", "has ended without receiving it"});
}

TEST(Check, ReceivesBeforeTheSendsTheyNeed) {
  Case c = make("pipeline=2,micro_batches=1", 2);
  auto& list = c.list(0);
  auto send = find(list, OpCode::send), receive = find(list, OpCode::receive, true);
  std::iter_swap(send, receive);  // now it receives the gradient before it sends the activation
  refuse(c, {"would deadlock", "receive gradient of", "waits for rank 1", "rank 1 at instruction", "waits for rank 0"});
}

TEST(Check, RedistributeWithoutOneRank) {
  Case c = make("tensor=4", 4);
  auto& list = c.list(2);
  ASSERT_NE(find(list, OpCode::redistribute), list.end());
  for (auto it = list.begin(); it != list.end();) it = it->code == OpCode::redistribute ? list.erase(it) : it + 1;
  refuse(c, {"redistribute", "waits for rank 2"});
}

TEST(Check, OneRedistributeTooFew) {
  Case c = make("tensor=2,micro_batches=2", 2);
  auto& list = c.list(1);
  list.erase(find(list, OpCode::redistribute));
  refuse(c, {"rank 0 at instruction", "redistribute", "waits for rank 1"});
}

TEST(Check, BucketThatOneHolderNeverCompletes) {
  Case c = make("data", 3);
  auto& list = c.list(1);
  list.erase(find(list, OpCode::reduce_gradients));
  refuse(c, {"optimizer step bucket", "waits for rank 1"});
}

TEST(Check, OptimizerStepBeforeOnesOwnReduction) {
  Case c = make("data", 2);
  auto& list = c.list(0);
  std::iter_swap(find(list, OpCode::reduce_gradients), find(list, OpCode::optimizer_step));
  refuse(c, {"would deadlock", "rank 0 at instruction", "waits for rank 0"});
}

TEST(Check, ClippingNeedsAll) {
  Case c = make("data", 2, {.clip_gradients = true});
  auto& list = c.list(1);
  list.erase(find(list, OpCode::clip_gradients));
  refuse(c, {"clip gradients", "waits for rank 1", "has ended"});
}

TEST(Check, LayersThatCommunicateNeedTheirGroup) {
  Model model = make_model({"cifar-resnet18", {3, 8, 8}, 4, {{"width", 4}}});
  Program program =
      compile(model, named_plan("data", model, Cluster::uniform(2), 16, {}), {.batch_norm = BatchNormScope::global});
  Case c{std::move(model), std::move(program)};
  auto& list = c.list(1);
  list.erase(find(list, OpCode::backward));
  refuse(c, {"rank 0 at instruction", "backward", "waits for rank 1"});
}

}  // namespace
}  // namespace trireme
