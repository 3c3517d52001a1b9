// NCCL: moves tensors between processes that drive a GPU each, from GPU to GPU.
#pragma once

#include <memory>
#include <string>

#include "comm/direct/device_link.h"

namespace trireme {

/// True if this build has NCCL's functions: libtorch with CUDA, and NCCL's header.
bool nccl_available();
/// Returns why this process cannot use NCCL; "" if it can.
std::string nccl_obstacle();
/// "NCCL 2.28.9"; "" where there is an obstacle.
std::string nccl_version();

/// The links of `gpu`, which no other rank uses. Errors (run): an obstacle; later, what NCCL reports.
std::shared_ptr<DeviceLinks> nccl_links(c10::Device gpu);

}  // namespace trireme
