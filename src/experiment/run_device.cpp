#include "experiment/run_device.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <numeric>

#include "base/counted.h"
#include "base/devices/device.h"
#include "base/devices/gpu.h"
#include "trireme/error.h"

namespace trireme {

namespace {

/// Throws the user error for device = "cuda". The message names the flag --device or the key, whichever the user gave.
[[noreturn]] void fail_device(const Experiment& experiment, const std::string& why, const std::string& or_else) {
  const std::string where = experiment.where("device");
  const bool is_flag = where.starts_with("--device");
  fail_user({where, is_flag ? "" : "\"cuda\"", why,
             (is_flag ? "leave it out to compute on cores" : "write device = \"cpu\"") + or_else});
}

int workers_of_process(const Plan& plan) { return plan.agreement.empty() ? 1 : plan.devices; }

}  // namespace

void fail_on_gpus(const Experiment& experiment, const std::string& what) {
  fail_device(experiment, what + " computes on cores", "");
}

std::vector<c10::Device> visible_devices(c10::DeviceType type) {
  std::vector<c10::Device> devices;
  if (!c10::impl::hasDeviceGuardImpl(type)) return devices;
  const c10::DeviceIndex count = c10::impl::getDeviceGuardImpl(type)->deviceCount();
  for (c10::DeviceIndex i = 0; i < count; ++i) devices.emplace_back(type, i);
  return devices;
}

void check_device(const RunSpec& experiment) {
  if (experiment.device == c10::DeviceType::CPU) return;
  const size_t count = visible_devices(experiment.device).size();
  if (count == 0)
    fail_device(experiment,
                c10::impl::hasDeviceGuardImpl(experiment.device)
                    ? "libtorch sees no GPU; trireme doctor says what it sees"
                    : "the libtorch of this build has no CUDA",
                ", or build with a CUDA libtorch on a machine with a GPU");
  if (experiment.virtual_machines) fail_on_gpus(experiment, "a worker in modelled time");
  if (experiment.links) fail_on_gpus(experiment, "a worker behind emulated links");
  if (experiment.adapt) fail_on_gpus(experiment, "a run that adapts its plan");
}

RunSpec on_its_devices(RunSpec experiment, const Plan& plan) {
  check_device(experiment);
  if (experiment.device == c10::DeviceType::CPU) return experiment;
  const bool on_several = visible_devices(experiment.device).size() > 1;
  if (plan.agreement.empty()) {
    if (on_several && plan.devices > 1) experiment.private_replicas = true;
  } else if (on_several && plan.devices > 1 && plan.optimizer_sharding == OptimizerSharding::none) {
    fail_device(experiment, "the workers of a replica share one copy of its weights, and each has a GPU of its own",
                ", or divide the weights among them: inner=zero1, zero2 or zero3");
  }
  return experiment;
}

std::vector<c10::Device> places_of_run(const RunSpec& experiment) {
  if (experiment.device == c10::DeviceType::CPU) return {};
  const std::vector<c10::Device> visible = visible_devices(experiment.device);
  check_internal(!visible.empty(), "a run on GPUs has been checked to have some");
  std::vector<c10::Device> places;
  places.reserve(kMaxDevices);
  for (int device = 0; device < kMaxDevices; ++device) places.push_back(visible[size_t(device) % visible.size()]);
  return places;
}

std::vector<c10::Device> places_of_process(const RunSpec& experiment, const Plan& plan) {
  std::vector<c10::Device> places;
  if (experiment.device == c10::DeviceType::CPU) return places;
  const std::vector<c10::Device> visible = visible_devices(experiment.device);
  check_internal(!visible.empty(), "a run on GPUs has been checked to have some");
  const int count = workers_of_process(plan);
  for (int worker = experiment.rank_on_machine * count; int(places.size()) < count; ++worker)
    places.push_back(visible[size_t(worker) % visible.size()]);
  return places;
}

PlacedDevices place_workers(const RunSpec& experiment, const Plan& plan) {
  if (!experiment.processes) return {0, places_of_run(experiment)};
  return {experiment.rank * workers_of_process(plan), places_of_process(experiment, plan)};
}

std::vector<int> devices_to_copy_to(const RunSpec& experiment, const Plan& plan) {
  if (experiment.device == c10::DeviceType::CPU || !experiment.copy_ahead) return {};
  if (!plan.agreement.empty() || plan.stages.size() > 1) return {};
  if (experiment.processes) return {experiment.rank};
  std::vector<int> devices(size_t(plan.devices));
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

std::vector<std::string> gpu_ids(const RunSpec& experiment) {
  std::vector<std::string> ids;
  if (experiment.device == c10::DeviceType::CUDA) {
    for (const Gpu& gpu : visible_gpus()) ids.push_back(gpu.id);
  } else if (experiment.device != c10::DeviceType::CPU) {
    for (const c10::Device& device : visible_devices(experiment.device)) ids.push_back(device.str());
  }
  return ids;
}

std::string device_in_words(const RunSpec& experiment, int gpus) {
  return experiment.device == c10::DeviceType::CPU ? "" : "workers compute on " + counted(gpus, "GPU");
}

std::string device_in_words(const RunSpec& experiment) {
  return device_in_words(experiment, int(visible_devices(experiment.device).size()));
}

}  // namespace trireme
