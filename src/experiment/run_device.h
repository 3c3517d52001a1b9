// The libtorch devices on which the workers of a run compute: cores or GPUs.
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <vector>

#include "base/devices/device.h"
#include "experiment/run_spec.h"
#include "trireme/plan.h"

namespace trireme {

/// Returns the devices of a type that this process can use; empty if libtorch here has none.
std::vector<c10::Device> visible_devices(c10::DeviceType type);

/// Throws a user error that names the experiment's key: `what` computes on cores.
[[noreturn]] void fail_on_gpus(const Experiment& experiment, const std::string& what);

/// Errors (user): the run's device is not there; a feature of the experiment for which workers compute on cores.
void check_device(const RunSpec& experiment);

/// Returns the experiment for a run under `plan`, after check_device: workers on several GPUs have replicas of their
/// own. Errors (user): those of check_device; an agreement between replicas whose workers would share weights that
/// several GPUs must have.
RunSpec on_its_devices(RunSpec experiment, const Plan& plan);

/// Returns where the devices 0, 1, ... of a run in one process compute: they take the visible GPUs in turn. Empty: all
/// on cores.
std::vector<c10::Device> places_of_run(const RunSpec& experiment);

/// Returns where the workers of this process compute in a run of processes under `plan`, by worker; empty: on cores.
std::vector<c10::Device> places_of_process(const RunSpec& experiment, const Plan& plan);

/// Places the workers of this process in a run under `plan`, which are numbered among those of all processes. The
/// processes of a machine take its GPUs in turn.
PlacedDevices place_workers(const RunSpec& experiment, const Plan& plan);

/// Returns, for each worker of this process, the device to which samples are copied a batch ahead
/// (LoaderOptions::devices); empty if none are. Stages of a pipeline use different parts of the samples, and an
/// agreement may read them on the host: such samples are copied when they are used.
std::vector<int> devices_to_copy_to(const RunSpec& experiment, const Plan& plan);

/// Returns one text for each GPU that this process can use; processes that use one GPU have the same text for it. Empty
/// for a run on cores.
std::vector<std::string> gpu_ids(const RunSpec& experiment);

/// Returns "", or for a run on GPUs a line for its header: "workers compute on 1 GPU". `gpus`: of all processes.
std::string device_in_words(const RunSpec& experiment, int gpus);
/// The same for a run in one process.
std::string device_in_words(const RunSpec& experiment);

}  // namespace trireme
