// The libtorch devices on which the workers of a run compute: cores or GPUs.
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <vector>

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

/// Returns where the devices 0, 1, ... of a run compute: they take the visible ones in turn. Empty: all on cores.
std::vector<c10::Device> places_of_run(const RunSpec& experiment);

/// Returns "", or for a run on GPUs a line for its header: "workers compute on 1 GPU".
std::string device_in_words(const RunSpec& experiment);

}  // namespace trireme
