// The devices that measurements are made on.
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

/// The cores that this process may use; or, while its devices are placed on GPUs (base/devices/device.h), these GPUs.
struct MeasuredDevices {
  int count = 1;       ///< workers that compute at the same time, each on a core or a GPU of its own
  int64_t memory = 0;  ///< bytes for each of them
  int gpus = 0;        ///< `count`, or 0: cores
  std::string gpu;     ///< "NVIDIA H200; CUDA 13.0, driver for CUDA 13.0, cuDNN 9.19.0"; "": cores
};

MeasuredDevices measured_devices();

}  // namespace trireme
