// The checker: programs that end pass, spoilt ones are refused with the ranks and instructions that wait for each other.
#include "program/check.h"

#include "../base/expect_error.h"
#include "plan/named.h"
#include "program/compile.h"
#include "zoo/zoo.h"

namespace trireme {
namespace {

struct Case {
  Model model;
  Program program;
};

Case make(const std::string& degrees, int devices, CompileOptions options = {}) {
  Model model = make_model({"mlp", {6}, 4, {{"hidden", 8}}});
  Program program = compile(model, named_plan(degrees, model, Cluster::uniform(devices), 16, {}), options);
  return {std::move(model), std::move(program)};
}

void refuse(const Case& c, const std::vector<std::string>& parts) {
  std::vector<std::string> all = parts;
  all.push_back("spoilt plan");
  expect_error(Blame::user, all, [&] { check_program(c.program, c.model, "spoilt plan"); });
}

std::vector<Instruction>::iterator find(std::vector<Instruction>& list, OpCode code, bool adjoint = false) {
  return std::find_if(list.begin(), list.end(), [&](const Instruction& i) { return i.code == code && i.adjoint == adjoint; });
}

TEST(Check, AcceptsEveryNamedPlan) {
  for (const char* name : {"mlp", "skip", "tied-mlp", "dropout-mlp"}) {
    const Model model = make_model({name, {6}, 4, {{"hidden", 8}}});
    for (const std::string& strategy : known_strategies())
      for (bool clip : {false, true})
        EXPECT_NO_THROW(compile(model, named_plan(strategy, model, Cluster::uniform(4), 16, {}), {.clip_gradients = clip}));
  }
  const Model norm = make_model({"cifar-resnet18", {3, 8, 8}, 4, {{"width", 4}}});
  for (const std::string& strategy : known_strategies())
    for (bool training : {false, true})
      EXPECT_NO_THROW(compile(norm, named_plan(strategy, norm, Cluster::uniform(4), 16, {}),
                              {.training = training, .batch_norm = BatchNormScope::global}));
}

TEST(Check, DroppedSend) {
  Case c = make("pipeline=2,micro_batches=2", 2);
  c.program.ranks[0].erase(find(c.program.ranks[0], OpCode::send));
  // rank 1 waits for the activation, rank 0 for the gradient that rank 1 would give later
  refuse(c, {"would deadlock", "rank 0 at instruction", "receive gradient of", "rank 1 at instruction", "micro-batch 0"});
}

TEST(Check, DroppedGradientSend) {
  Case c = make("pipeline=2,micro_batches=1", 2);
  c.program.ranks[1].erase(find(c.program.ranks[1], OpCode::send, true));
  refuse(c, {"rank 0 at instruction", "receive gradient of", "waits for rank 1", "has ended and never takes part"});
}

TEST(Check, ReceivesBeforeTheSendsTheyNeed) {
  Case c = make("pipeline=2,micro_batches=1", 2);
  auto& list = c.program.ranks[0];
  auto send = find(list, OpCode::send), receive = find(list, OpCode::receive, true);
  std::iter_swap(send, receive);  // wants the gradient before it has sent the activation
  refuse(c, {"would deadlock", "receive gradient of", "waits for rank 1", "rank 1 at instruction", "waits for rank 0"});
}

TEST(Check, RedistributeWithoutOneRank) {
  Case c = make("tensor=4", 4);
  auto& list = c.program.ranks[2];
  ASSERT_NE(find(list, OpCode::redistribute), list.end());
  for (auto it = list.begin(); it != list.end();) it = it->code == OpCode::redistribute ? list.erase(it) : it + 1;
  refuse(c, {"redistribute", "waits for rank 2"});
}

TEST(Check, OneRedistributeTooFew) {
  Case c = make("tensor=2,micro_batches=2", 2);
  auto& list = c.program.ranks[1];
  list.erase(find(list, OpCode::redistribute));
  refuse(c, {"rank 0 at instruction", "redistribute", "waits for rank 1"});
}

TEST(Check, BucketThatOneHolderNeverCompletes) {
  Case c = make("data", 3);
  auto& list = c.program.ranks[1];
  list.erase(find(list, OpCode::reduce_gradients));
  refuse(c, {"optimizer step bucket", "waits for rank 1"});
}

TEST(Check, OptimizerStepBeforeOnesOwnReduction) {
  Case c = make("data", 2);
  auto& list = c.program.ranks[0];
  std::iter_swap(find(list, OpCode::reduce_gradients), find(list, OpCode::optimizer_step));
  refuse(c, {"would deadlock", "rank 0 at instruction", "waits for rank 0"});
}

TEST(Check, ClippingNeedsAll) {
  Case c = make("data", 2, {.clip_gradients = true});
  auto& list = c.program.ranks[1];
  list.erase(find(list, OpCode::clip_gradients));
  refuse(c, {"clip gradients", "waits for rank 1", "has ended"});
}

TEST(Check, LayersThatTalkNeedTheirGroup) {
  Model model = make_model({"cifar-resnet18", {3, 8, 8}, 4, {{"width", 4}}});
  Program program = compile(model, named_plan("data", model, Cluster::uniform(2), 16, {}), {.batch_norm = BatchNormScope::global});
  Case c{std::move(model), std::move(program)};
  c.program.ranks[1].erase(find(c.program.ranks[1], OpCode::backward));
  refuse(c, {"rank 0 at instruction", "backward", "waits for rank 1"});
}

}  // namespace
}  // namespace trireme
