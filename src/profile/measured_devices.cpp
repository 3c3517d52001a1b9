#include "profile/measured_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/devices/device.h"
#include "base/devices/gpu.h"
#include "base/machine.h"

namespace trireme {

MeasuredDevices measured_devices() {
  const Machine machine = inspect_machine(/*time_product=*/false);
  const int cores = std::max(machine.cores, 1);
  const std::vector<c10::Device> places = placed_gpus();
  if (places.empty()) return {.count = cores, .memory = machine.memory_bytes / cores, .gpus = 0, .gpu = ""};
  const int count = int(places.size());
  MeasuredDevices found{.count = count, .memory = machine.memory_bytes / count, .gpus = count, .gpu = ""};
  if (!places.front().is_cuda()) {  // a device of tests, in the host's memory
    found.gpu = c10::DeviceTypeName(places.front().type(), /*lower_case=*/true);
    return found;
  }
  const std::vector<Gpu> gpus = visible_gpus();
  const Gpu& first = gpus.at(size_t(places.front().index()));
  found.memory = first.memory_bytes;
  found.gpu = fmt::format("{}; {}", first.name, cuda_versions());
  return found;
}

}  // namespace trireme
