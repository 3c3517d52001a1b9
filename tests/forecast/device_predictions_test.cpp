// Predictions for workers on GPUs measure there. The GPUs are devices of tests, whose memory the host cannot touch.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>

#include "../train/memory_data.h"
#include "base/devices/device.h"
#include "experiment/run_device.h"
#include "forecast/predict.h"
#include "forecast/predictions.h"
#include "profile/measure_layers.h"
#include "profile/measure_updates.h"
#include "profile/measured_devices.h"
#include "support/strict_device.h"
#include "train/measure_step.h"
#include "trireme/error.h"

namespace trireme::test_support {
namespace {

struct DevicePredictionsTest : ::testing::Test {
  DevicePredictionsTest() {
    test::install_strict_device();
    experiment.file = "tiny.toml";
    experiment.batch = 32;
    experiment.model_name = "mlp";
    experiment.model_options = {{"hidden", 32}, {"depth", 2}};
    experiment.device = c10::DeviceType::PrivateUse1;
    data.train = data.test = std::make_shared<MemoryDataset>(128, 1);
    model = build_model(experiment, data);
  }
  ~DevicePredictionsTest() override { std::filesystem::remove(profile); }

  /// Writes a profile with links of 10 us and 1 GB/s, and with updates. To measure them takes minutes on devices whose
  /// memory is protected.
  void write_links_and_updates() const {
    const PlacedDevices placed(0, places_of_run(experiment));
    Profile known;
    known.machine = fingerprint_of_this_machine();
    known.links.hand_over = known.links.wake_up = 1e-5;
    GroupMeasurement& group = known.links.groups.emplace_back();
    group.workers = 2;
    for (const char* line :
         {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send", "redistribute all_reduce",
          "redistribute all_gather", "redistribute reduce_scatter", "redistribute all_to_all"})
      group.lines[line] = {1e-5, 1e9, 0, {}};
    for (const int contributors : {1, 2, 4, 8})
      known.updates.push_back({update_name(experiment.optimizer, experiment.precision), contributors, 1e-6, 1e-9, 1});
    write_profile(known, profile);
  }

  double seconds(Predictions& predictions, const char* strategy, int devices) {
    const Plan plan = predictions.plan(strategy, devices);
    const RunResult row = predict(experiment, *model, plan, predictions.source(plan), {.timeline = false});
    return row.predicted.value().step_seconds;
  }

  const std::atomic<bool> interrupted{false};
  const std::filesystem::path profile = std::filesystem::temp_directory_path() / "trireme_device_predictions.json";
  TaskData data;
  RunSpec experiment;
  std::optional<Model> model;
};

TEST_F(DevicePredictionsTest, MeasureOnTheDevicesAndKeepAProfileOfThem) {
  write_links_and_updates();
  {
    Predictions predictions(experiment, *model, data, {.cluster = {}, .profile = profile, .times = {}});
    EXPECT_EQ(measured_devices().gpus, test::kStrictDevices);
    const std::string line = predictions.try_steps({1, 2}, trial_of_steps(experiment, *model, data, interrupted));
    EXPECT_NE(line.find("(one device)"), std::string::npos) << line;
    EXPECT_NE(line.find("(data on 2 devices)"), std::string::npos) << line;
    for (const char* strategy : {"data", "exact"}) EXPECT_GT(seconds(predictions, strategy, 2), 0);
    EXPECT_FALSE(predictions.source(2).shares_memory);  // each device has its own copy of the weights
    predictions.keep();
  }
  EXPECT_EQ(measured_devices().gpus, 0);
  const Profile kept = read_profile(profile);
  EXPECT_EQ(kept.machine.gpus, test::kStrictDevices);
  EXPECT_EQ(kept.machine.places(), test::kStrictDevices);
  EXPECT_EQ(kept.step_factors.size(), 1U);
  EXPECT_FALSE(kept.layers.empty());
  experiment.device = c10::DeviceType::CPU;
  try {
    Predictions on_cores(experiment, *model, data, {.cluster = {}, .profile = profile, .times = {}});
    FAIL() << "a profile of GPUs is not one of cores";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("GPUs 4, here 0"), std::string::npos) << error.what();
  }
}

TEST_F(DevicePredictionsTest, BytesOfALayerAreThoseOnCores) {
  const LayerSites sites(*model, site_options(experiment));
  const std::vector<LayerRequest> requests = requests_for(sites, {1}, 8);
  const Repetitions few{.passes = 1, .most = 1, .split = 0};
  const std::vector<LayerMeasurement> on_cores = measure_layers(sites, requests, few);
  const PlacedDevices placed(0, std::vector<c10::Device>(kMaxDevices, test::strict_device(0)));
  const std::vector<LayerMeasurement> on_device = measure_layers(sites, requests, few);
  ASSERT_EQ(on_device.size(), on_cores.size());
  for (size_t i = 0; i < on_cores.size(); ++i) {
    EXPECT_GT(on_device[i].forward.median, 0);
    EXPECT_EQ(on_device[i].memory.output, on_cores[i].memory.output);
    EXPECT_EQ(on_device[i].memory.keeps_input, on_cores[i].memory.keeps_input);
  }
}

}  // namespace
}  // namespace trireme::test_support
