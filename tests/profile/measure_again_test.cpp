#include "profile/measure_again.h"

#include <gtest/gtest.h>

#include "profile/measured_devices.h"
#include "zoo/zoo.h"

namespace trireme {
namespace {

LayerMeasurement measured(double forward, double backward, double crowding) {
  LayerMeasurement m;
  m.forward = {forward, forward, forward};
  m.backward = {backward, backward, backward};
  m.backward_input = 0.6 * backward;
  m.backward_weight = 0.3 * backward;
  m.crowding = crowding;
  m.runs = 3;
  return m;
}

TEST(MeasureAgain, KeepsTheFasterForwardAndBackwardEachByItself) {
  LayerMeasurement kept = measured(1, 4, 1.5);  // 7.5 for all devices together
  kept.memory.output = 99;
  keep_fastest(kept, measured(2, 2, 2));  // 8 for all devices together
  EXPECT_EQ(kept.forward.median, 1);
  EXPECT_EQ(kept.backward.median, 2);
  EXPECT_DOUBLE_EQ(kept.backward_input, 1.2);
  EXPECT_DOUBLE_EQ(kept.backward_weight, 0.6);
  EXPECT_DOUBLE_EQ(kept.crowding, 7.5 / 3);
  EXPECT_EQ(kept.runs, 6);
  EXPECT_EQ(kept.memory.output, 99);
}

TEST(MeasureAgain, ADisturbedMeasurementLeavesNoTrace) {
  LayerMeasurement kept = measured(1, 2, 1.9);
  keep_fastest(kept, measured(1.5, 3, 1));  // disturbed alone, undisturbed together
  EXPECT_EQ(kept.forward.median, 1);
  EXPECT_EQ(kept.backward.median, 2);
  EXPECT_DOUBLE_EQ(kept.crowding, 1.5);
  keep_fastest(kept, measured(2, 2, 0.5));
  EXPECT_EQ(kept.crowding, 1) << "together is never faster than alone";
}

TEST(MeasureAgain, ALayerWithoutBackwardHasNone) {
  LayerMeasurement kept = measured(0, 0, 1);
  keep_fastest(kept, measured(0, 0, 1));
  EXPECT_EQ(kept.crowding, 1);
}

/// What is measured at once fits into the memory of one worker.
TEST(MeasureAgain, AsManySamplesAsFitIntoTheMemory) {
  const auto most = [](int width) {
    const Model model = make_model({.name = "mlp", .sample_shape = {width}, .classes = 2, .options = {{"hidden", 2}}});
    return most_samples_to_measure(LayerSites(model, {}));
  };
  constexpr int kWidth = 1 << 20;
  const auto memory = double(measured_devices().memory);
  EXPECT_LT(double(most(kWidth)) * 2 * kWidth * sizeof(float), memory);
  EXPECT_GT(double(most(kWidth)) * 2 * kWidth * sizeof(float), 0.1 * memory);
  EXPECT_NEAR(double(most(kWidth)) / double(most(4 * kWidth)), 4, 0.1);
}

TEST(MeasureAgain, MeasuresEveryGroupTwiceMoreWithinItsTimeAndNoneBeyondIt) {
  const Model model = make_model({.name = "mlp", .sample_shape = {16}, .classes = 8, .options = {{"hidden", 32}}});
  const LayerSites sites(model, {});
  std::vector<MeasuredGroup> groups(1);
  groups[0].requests = requests_for(sites, {1}, 4);
  groups[0].measured = measure_layers(sites, groups[0].requests, {.passes = 1, .most = 1});
  const std::vector<LayerMeasurement> before = groups[0].measured;
  measure_again(sites, groups, 0, 1);
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(groups[0].measured[i].runs, before[i].runs) << "no time, no laps";
  groups[0].seconds = 0;
  measure_again(sites, groups, 60, 1);
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_GE(groups[0].measured[i].runs, before[i].runs + 2);
    EXPECT_LE(groups[0].measured[i].forward.median, before[i].forward.median);
    EXPECT_GE(groups[0].measured[i].crowding, 1);
  }
}

}  // namespace
}  // namespace trireme
