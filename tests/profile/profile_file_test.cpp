#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/expect_error.h"
#include "profile/measure_links.h"
#include "profile/measure_profile.h"
#include "profile/measure_updates.h"
#include "profile/profile.h"

namespace trireme {
namespace {

Profile sample_profile() {
  Profile profile;
  profile.machine = {"a processor", 2, int64_t{1} << 34, "1.13", "2.7", "OpenBLAS", "tcmalloc", 1};
  LayerMeasurement m;
  m.forward = {1e-3, 0.9e-3, 1.2e-3};
  m.backward = {2e-3, 1.9e-3, 2.2e-3};
  m.backward_input = 1.1e-3;
  m.backward_weight = 0.9e-3;
  m.crowding = 1.25;
  m.runs = 7;
  m.memory = {.output = 4096,
              .output_shares_input = -1,
              .saved = 128,
              .keeps_input = {true, false},
              .keeps_output = true,
              .forward_workspace = 64,
              .backward_workspace = 32,
              .input_gradients = {4096, 0}};
  profile.layers["conv2d [3, 8, 8]:Float"][4] = m;
  m.memory.output_shares_input = 0;
  profile.layers["conv2d [3, 8, 8]:Float"][8] = m;
  profile.links.groups = {{2, {{"all_reduce", {1e-6, 5e9, 0.1, {{1e3, 2e-6}, {1e6, 3e-4}}}}}, 2e-6},
                          {4, {{"send", {3e-6, 4e9, 0.2, {}}}}, 5e-6}};
  profile.links.hand_over = 1.5e-6;
  profile.links.wake_up = 50e-6;
  profile.links.compute_slowdown = 1.1;
  profile.links.transfer_slowdown = 1.3;
  profile.updates = {{"adam fp32", 2, 1e-6, 1.5e-9, 1.4}};
  profile.device = {int64_t{1} << 33, 6e10};
  profile.step_factors = {{"mlp, 1234 weights, fp32", {.seconds = 1.08, .crowding = 1.2, .sharing = 1.1}}};
  return profile;
}

TEST(ProfileFile, IsReadBackUnchanged) {
  const Profile profile = sample_profile();
  const auto file = std::filesystem::temp_directory_path() / "trireme_profile_file_test.json";
  write_profile(profile, file);
  const Profile read = read_profile(file);
  std::filesystem::remove(file);
  EXPECT_EQ(profile_to_json(read), profile_to_json(profile));
  EXPECT_EQ(read.machine, profile.machine);
  const LayerMeasurement* m = read.find("conv2d [3, 8, 8]:Float", 4);
  ASSERT_NE(m, nullptr);
  EXPECT_EQ(m->forward.p90, 1.2e-3);
  EXPECT_EQ(m->memory.keeps_input, (std::vector<bool>{true, false}));
  EXPECT_EQ(m->memory.input_gradients, (std::vector<int64_t>{4096, 0}));
  EXPECT_EQ(m->memory.output_shares_input, -1);
  EXPECT_EQ(read.find("conv2d [3, 8, 8]:Float", 5), nullptr);
  EXPECT_EQ(read.find("linear", 4), nullptr);
  EXPECT_EQ(read.links.groups.at(1).lines.at("send").bandwidth, 4e9);
  EXPECT_EQ(read.step_factors.at("mlp, 1234 weights, fp32").crowding, 1.2);
}

TEST(ProfileFile, OldOnesHaveNoStepFactors) {
  auto j = profile_to_json(sample_profile());
  j.erase("step_factors");
  EXPECT_TRUE(profile_from_json(j, "p.json").step_factors.empty());
}

TEST(ProfileFile, OldOnesDoNotKnowTheSpeedOfTheMemory) {
  Profile profile = sample_profile();
  profile.device.memory_speed = 2e10;
  auto j = profile_to_json(profile);
  EXPECT_EQ(profile_from_json(j, "p.json").device.memory_speed, 2e10);
  j["device"].erase("memory_speed");
  EXPECT_EQ(profile_from_json(j, "p.json").device.memory_speed, 0);
}

TEST(ProfileFile, StepFactorsBelongToAModelOfOneSizeAndPrecision) {
  EXPECT_EQ(step_factors_name("mlp", 1234, Precision::bf16), "mlp, 1234 weights, bf16");
}

TEST(ProfileFile, RefusesWhatIsNone) {
  auto j = profile_to_json(sample_profile());
  expect_error(Blame::user, {"x.json", "not a profile"}, [] { profile_from_json(nlohmann::json::array(), "x.json"); });
  expect_error(Blame::user, {"x.json", "not a profile"}, [] {
    profile_from_json({{"format", "something"}}, "x.json");
  });
  auto newer = j;
  newer["version"] = 99;
  expect_error(Blame::user, {"x.json", "version 99", "reads version 2"}, [&] { profile_from_json(newer, "x.json"); });
  auto damaged = j;
  damaged["layers"][0]["sizes"][0].erase("forward");
  expect_error(Blame::user, {"x.json", "damaged", "forward"}, [&] { profile_from_json(damaged, "x.json"); });
  damaged = j;
  damaged["machine"]["cores"] = 0;
  expect_error(Blame::user, {"x.json", "damaged", "cores is 0"}, [&] { profile_from_json(damaged, "x.json"); });
  damaged["machine"]["cores"] = "two";
  expect_error(Blame::user, {"x.json", "damaged"}, [&] { profile_from_json(damaged, "x.json"); });
}

TEST(Fingerprint, NamesTheDifference) {
  const Fingerprint here = sample_profile().machine;
  EXPECT_EQ(difference(here, here), "");
  Fingerprint other = here;
  other.memory = here.memory - here.memory / 100;
  EXPECT_EQ(difference(other, here), "");  // differs by a hundredth of the memory
  other.cores = 8;
  other.libtorch = "2.1";
  EXPECT_EQ(difference(other, here), "cores 8, here 2; libtorch 2.1, here 1.13");
  check_same_machine(here, here, "x.json");
  expect_error(Blame::user, {"x.json", "another machine", "cores 8, here 2", "--out"},
               [&] { check_same_machine(other, here, "x.json"); });
  EXPECT_GE(fingerprint_of_this_machine().cores, 1);
}

TEST(Spread, IsTheMedianAndTheTenths) {
  std::vector<double> values;
  for (int i = 10; i >= 0; --i) values.push_back(i);
  const Spread s = spread_of(values);
  EXPECT_EQ(s.median, 5);
  EXPECT_EQ(s.p10, 1);
  EXPECT_EQ(s.p90, 9);
  EXPECT_EQ(spread_of({2}).p90, 2);
  EXPECT_EQ(spread_of({1, 2}).median, 1.5);
}

TEST(FitLine, FindsTheLine) {
  std::vector<std::pair<double, double>> points;
  for (double bytes : {1e3, 1e5, 1e6, 1e7}) points.emplace_back(bytes, 2e-6 + bytes / 4e9);
  const TransferLine line = fit_line(points);
  EXPECT_NEAR(line.latency, 2e-6, 1e-12);
  EXPECT_NEAR(line.bandwidth / 4e9, 1, 1e-9);
  EXPECT_LT(line.worst, 1e-9);
  EXPECT_NEAR(line.seconds(4e9), 1 + 2e-6, 1e-9);
}

TEST(TransferLine, GoesFromPointToPoint) {
  // Fast while the data fits into a cache, slow beyond. The third point is disturbed.
  const TransferLine line = fit_line({{1e3, 1e-6}, {1e5, 1e-5}, {2e5, 4e-5}, {3e5, 2e-5}, {1e6, 4e-4}});
  EXPECT_EQ(line.seconds(0), 1e-6);
  EXPECT_EQ(line.seconds(1e3), 1e-6);
  EXPECT_NEAR(line.seconds(1e5), 1e-5, 1e-12);
  EXPECT_NEAR(line.seconds(5.05e4), 5.5e-6, 1e-12);
  EXPECT_NEAR(line.seconds(2.5e5), 3e-5, 1e-12) << "of two that fall the mean";
  EXPECT_NEAR(line.seconds(1.7e6), 4e-4 + 3.7e-4, 1e-10);
  const TransferLine flat = fit_line({{1e3, 1e-6}, {1e6, 1e-6}});
  EXPECT_GT(flat.seconds(4e6), 2e-6) << "many bytes are not free";
}

TEST(FitLine, IsNeverNegative) {
  // The time grows faster than in proportion, so the line through the points would begin below zero.
  const TransferLine steep = fit_line({{1e3, 1e-7}, {1e6, 1e-3}});
  EXPECT_EQ(steep.latency, 0);
  EXPECT_GT(steep.bandwidth, 0);
  const TransferLine falling = fit_line({{1e3, 2e-6}, {1e6, 1e-6}});
  EXPECT_EQ(falling.bandwidth, 0);
  EXPECT_GT(falling.latency, 0.9e-6);
  EXPECT_LT(falling.latency, 2.1e-6);
  EXPECT_GT(falling.worst, 0);
}

TEST(UsualSamples, ArePowersOfTwoAndTheBatch) {
  EXPECT_EQ(usual_samples(1), (std::vector<int64_t>{1}));
  EXPECT_EQ(usual_samples(8), (std::vector<int64_t>{1, 2, 4, 8}));
  EXPECT_EQ(usual_samples(12), (std::vector<int64_t>{1, 2, 4, 8, 12}));
}

TEST(UpdateName, SaysWhatCosts) {
  EXPECT_EQ(update_name({}, Precision::fp32), "sgd fp32");
  EXPECT_EQ(update_name({.momentum = 0.9, .ema = 0.99}, Precision::bf16), "sgd momentum ema bf16");
  EXPECT_EQ(update_name({.kind = &kAdam}, Precision::fp32), "adam fp32");
}

}  // namespace
}  // namespace trireme
