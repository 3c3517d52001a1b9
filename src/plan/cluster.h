// The devices that a plan may use.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme {

struct Device {
  int64_t memory = 0;  ///< bytes for tensors; 0: no limit
  double speed = 1;    ///< relative to the others
};

struct Cluster {
  std::vector<Device> devices;

  int size() const { return int(devices.size()); }
  static Cluster uniform(int devices, int64_t memory = 0) {
    return {std::vector<Device>(size_t(devices), Device{.memory = memory})};
  }
};

}  // namespace trireme
