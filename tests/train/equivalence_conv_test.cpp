// All plans for convolutional models without batch norm.
#include "equivalence.h"

namespace trireme::test_support {
namespace {

class Convolutional : public ::testing::TestWithParam<std::string> {};

TEST_P(Convolutional, DoubleUnderEveryPlan) {
  const Model model = small_model(GetParam());
  size_t turn = 0;  // one recipe per plan, in turn; dense models run all of them under all plans
  for (const std::string& degrees : all_degrees())
    expect_equivalent(model, plan_of(degrees, model), recipes()[turn++ % recipes().size()], {});
}

TEST_P(Convolutional, FloatUnderEveryPlan) {
  const Model model = small_model(GetParam());
  size_t turn = 2;
  for (const std::string& degrees : all_degrees())
    expect_equivalent(model, plan_of(degrees, model), recipes()[turn++ % recipes().size()],
                      {.precision = Precision::fp32, .tolerance = 5e-5, .batches = {7, 2}});
}

INSTANTIATE_TEST_SUITE_P(Models, Convolutional, ::testing::Values("convnet", "resnet"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace trireme::test_support
