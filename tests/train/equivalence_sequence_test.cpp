// Language models under every kind of plan, and state that layers keep from step to step.
#include <map>

#include "equivalence.h"
#include "trireme/error.h"

namespace trireme::test_support {
namespace {

/// State continues row by row, so batches have one size.
const std::vector<int64_t> kEven{12, 12, 12, 12};

TEST(Transformers, EveryDegree) {
  for (const char* name : {"transformer-lm", "transformer-classifier"}) {
    const Model model = small_model(name);
    size_t turn = 0;
    for (const char* degrees :
         {"data=1,micro_batches=3", "data=3", "tensor=2", "data=2,tensor=2", "pipeline=2,micro_batches=3",
          "pipeline=3,micro_batches=4,schedule=1f1b", "tensor=2,pipeline=2,micro_batches=3,schedule=zero-bubble",
          "pipeline=2,chunks=2,schedule=interleaved,micro_batches=4", "data=2,sharding=zero1", "data=2,sharding=zero3",
          "pipeline=2,micro_batches=2,data=2,sharding=zero3", "tensor=2,recompute=all",
          "data=2,pipeline=2,micro_batches=3,schedule=1f1b,recompute=except_last"})
      expect_equivalent(model, plan_of(degrees, model), recipes()[turn++ % recipes().size()], {});
  }
}

/// Every sharding option of every layer: all layers with an option of the same name use it together.
TEST(Splits, EveryOptionOfEveryLayer) {
  for (const char* name :
       {"transformer-lm", "transformer-classifier", "lstm-lm", "inception", "convnet", "resnet-bn"}) {
    const Model model = small_model(name);
    const Comparison comparison{.batches = name == std::string("lstm-lm") ? kEven : std::vector<int64_t>{5}};
    for (int degree : {2, 4}) {
      const Plan base = plan_of("tensor=" + std::to_string(degree), model);
      std::map<std::string, Plan> by_option;
      for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id)
        for (const ShardingOption& option : model.node(id).layer->sharding_options(model.input_shapes(id), degree)) {
          Plan& plan = by_option.try_emplace(option.name, base).first->second;
          plan.name = "all " + option.name;
          plan.layers[size_t(id)].split = option.name;
        }
      for (auto& [option, plan] : by_option) {
        try {
          validate(plan, model, kBatch, "test");
        } catch (const Error&) {
          continue;  // cuts tied weights in two ways
        }
        expect_equivalent(model, plan, recipes()[0], comparison);
      }
    }
  }
}

/// Truncated back-propagation through time: each row's state is carried from step to step, on whichever worker the row
/// lies.
TEST(State, ResumesUnderEveryPlan) {
  const Model model = small_model("lstm-lm");
  size_t turn = 0;
  for (const char* degrees :
       {"data=2", "data=3", "data=2,micro_batches=2", "tensor=2", "tensor=4", "data=2,tensor=2",
        "pipeline=2,micro_batches=3", "pipeline=3,micro_batches=2,schedule=1f1b",
        "data=2,pipeline=2,micro_batches=2,schedule=zero-bubble", "tensor=2,pipeline=2,micro_batches=2",
        "pipeline=2,chunks=2,schedule=interleaved,micro_batches=2", "data=2,sharding=zero3", "data=2,recompute=all",
        "pipeline=2,micro_batches=3,recompute=except_last", "data=2,speeds=2:1",
        "tensor=2,recompute=all,recompute_communication=1",
        "tensor=2,pipeline=2,micro_batches=3,schedule=1f1b,recompute=all,recompute_communication=1,scatter_messages=1"})
    expect_equivalent(model, plan_of(degrees, model), recipes()[turn++ % recipes().size()], {.batches = kEven});
}

/// The loss of the third step shows whether the state was carried there.
TEST(State, BeginsAnewWhereTheStreamDoes) {
  const Model model = small_model("lstm-lm");
  LockstepOptions options{.steps = 4, .precision = Precision::fp64, .worker = {.seed = 3}};
  const auto batches = random_batches(model, kEven);
  for (const char* degrees : {"data=1", "data=2", "tensor=2", "pipeline=2,micro_batches=3,recompute=all"}) {
    const Plan plan = plan_of(degrees, model);
    options.starts_anew = {};
    const auto carried = run_lockstep(model, plan, batches, options);
    options.starts_anew = [](int64_t step) { return step % 2 == 0; };
    const auto anew = run_lockstep(model, plan, batches, options);
    EXPECT_EQ(carried[1].loss, anew[1].loss);
    EXPECT_GT(std::abs(carried[2].loss - anew[2].loss), 1e-6);
  }
}

TEST(State, IsCarriedThroughPipelinesWithoutFlush) {
  const Model model = small_model("lstm-lm");
  LockstepOptions options{.steps = 4, .precision = Precision::fp64, .worker = {.seed = 3}, .learning_rate = 0};
  const auto batches = random_batches(model, kEven);
  const auto expected = run_lockstep(model, single_plan(model), batches, options);
  const auto actual =
      run_lockstep(model, plan_of("pipeline=3,schedule=pipedream,micro_batches=1", model), batches, options);
  for (size_t s = 0; s < expected.size(); ++s) EXPECT_NEAR(actual[s].loss, expected[s].loss, 1e-12);
}

TEST(State, RefusesBatchesOfAnotherSize) {
  const Model model = small_model("lstm-lm");
  try {
    run_recipe(model, single_plan(model), recipes()[0], {.batches = {12, 5}}, true);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("use batches of one size"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace trireme::test_support
