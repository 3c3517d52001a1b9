// All plans for fully connected models: a chain, a skip connection, dropout and tied weights.
#include "equivalence.h"

namespace trireme::test_support {
namespace {

class Dense : public ::testing::TestWithParam<std::string> {};

TEST_P(Dense, DoubleUnderEveryPlan) {
  const Model model = small_model(GetParam());
  for (const std::string& degrees : all_degrees())
    for (const Recipe& recipe : recipes()) expect_equivalent(model, plan_of(degrees, model), recipe, {});
}

TEST_P(Dense, FloatUnderEveryPlan) {
  const Model model = small_model(GetParam());
  size_t turn = 0;
  for (const std::string& degrees : all_degrees())
    expect_equivalent(model, plan_of(degrees, model), recipes()[turn++ % recipes().size()],
                      {.precision = Precision::fp32, .tolerance = 1e-5});
}

INSTANTIATE_TEST_SUITE_P(Models, Dense, ::testing::Values("mlp", "skip", "dropout-mlp", "tied-mlp"),
                         [](const auto& info) { return info.param.substr(0, info.param.find('-')); });

}  // namespace
}  // namespace trireme::test_support
