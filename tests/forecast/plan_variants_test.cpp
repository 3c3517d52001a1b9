// Variants of found plans: schedules that split backward, also there and back, and sharding inside nodes.
#include "forecast/plan_variants.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "plan/named.h"
#include "program/compile.h"
#include "zoo/zoo.h"

namespace trireme::test_support {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::IsSupersetOf;
using ::testing::Not;

constexpr NodeId kUnit = 2;  // layers

Model deep_mlp() { return make_model({"mlp", {64}, 4, {{"hidden", 64}, {"depth", 12}}}); }

std::vector<Plan> variants(const Model& model, const char* name, int devices, int per_node) {
  const Plan plan = named_plan(name, model, Cluster::uniform(devices), 64, {});
  VariantFacts facts{.seconds = LayerSeconds(model.nodes().size(), 1), .per_node = per_node};
  facts.cuts.reserve(model.nodes().size());
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); id += kUnit) facts.cuts.push_back(id);
  return variants_of(plan, model, facts);
}

template <class Member>
std::vector<Member> all_of(const std::vector<Plan>& plans, Member Plan::*member) {
  std::vector<Member> values;
  values.reserve(plans.size());
  for (const Plan& plan : plans) values.push_back(plan.*member);
  return values;
}

TEST(PlanVariants, OfAPipelineHaveOtherSchedules) {
  const Model model = deep_mlp();
  const std::vector<Plan> plans = variants(model, "data=2,pipeline=2,schedule=1f1b,micro_batches=8", 4, 0);
  EXPECT_THAT(all_of(plans, &Plan::schedule),
              IsSupersetOf({"1f1b", "zero-bubble", "zero-bubble-h2", "zero-bubble-2p", "zero-bubble-v"}));
  EXPECT_THAT(all_of(plans, &Plan::schedule), Not(Contains("interleaved")));
  EXPECT_THAT(all_of(plans, &Plan::optimizer_sharding),
              IsSupersetOf({OptimizerSharding::none, OptimizerSharding::zero1}));
  EXPECT_THAT(all_of(plans, &Plan::sharding_group), Each(0));
  for (const Plan& plan : plans) EXPECT_NO_THROW(compile(model, plan, {})) << plan.schedule;
}

TEST(PlanVariants, ThereAndBackAreCutAgain) {
  const Model model = deep_mlp();
  const std::vector<Plan> plans = variants(model, "pipeline=3,schedule=1f1b,micro_batches=8", 3, 0);
  const auto v = std::find_if(plans.begin(), plans.end(), [](const Plan& p) { return p.schedule == "zero-bubble-v"; });
  ASSERT_NE(v, plans.end());
  EXPECT_EQ(v->stages, (std::vector<std::vector<int>>{{0}, {1}, {2}, {2}, {1}, {0}}));
  std::vector<int> layers(6);
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
    const int stage = v->layers[size_t(id)].stage;
    if ((id - model.input_count()) % kUnit == 1) {
      EXPECT_EQ(stage, v->layers[size_t(id) - 1].stage) << "units are whole";
    }
    ++layers[size_t(stage)];
  }
  EXPECT_LE(*std::max_element(layers.begin(), layers.end()) - *std::min_element(layers.begin(), layers.end()), kUnit);
  // not for more stages than units
  const Model small = make_model({"mlp", {64}, 4, {{"hidden", 64}}});
  EXPECT_THAT(all_of(variants(small, "pipeline=4,schedule=1f1b,micro_batches=8", 4, 0), &Plan::schedule),
              Not(Contains("zero-bubble-v")));
}

TEST(PlanVariants, OfDividedPlansStayInsideNodes) {
  const Model model = deep_mlp();
  std::vector<Plan> plans = variants(model, "data=8,sharding=zero3", 8, 4);
  std::erase_if(plans, [](const Plan& plan) { return plan.sharding_group == 0; });
  ASSERT_EQ(plans.size(), 2u);  // zero3 and zero1
  for (const Plan& plan : plans) {
    EXPECT_EQ(plan.sharding_group, 4);
    EXPECT_NO_THROW(compile(model, plan, {}));
  }
  EXPECT_THAT(all_of(variants(model, "data=4,tensor=2,sharding=zero1", 8, 4), &Plan::sharding_group), Contains(2));
  EXPECT_THAT(all_of(variants(model, "data=4,sharding=zero1", 4, 4), &Plan::sharding_group), Each(0))
      << "one node has all of them";
  EXPECT_THAT(all_of(variants(model, "data=8,sharding=zero1", 8, 0), &Plan::sharding_group), Each(0));
}

}  // namespace
}  // namespace trireme::test_support
