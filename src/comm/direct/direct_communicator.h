// A communicator whose tensors travel from device to device, while another one carries everything else.
#pragma once

#include <memory>

#include "comm/direct/device_link.h"
#include "trireme/communicator.h"

namespace trireme {

/// Seconds after which an operation that does not finish is an error, if the other ranks are alive.
inline constexpr double kDirectSeconds = 600;

/// A communicator with the ranks of `control`. Tensors in memory of the links' device travel over links; tensors of the
/// host, texts and barriers go through `control`. In one operation, the tensors of all ranks must be on devices, or all
/// on the host; an all_to_all without data counts as one on the devices.
///
/// Each rank adds up its part in rank order, so sums have the same bits as with other backends. An operation's
/// transfers have ended when it returns; the device may still add up or copy what arrived, in the order of the calling
/// thread's work. The host's waits end with an error after an abort, if a rank is gone, and after the time limit
/// (kDirectSeconds). Only the time limit detects calls that do not match.
///
/// Errors: those of `control` and of the links.
std::unique_ptr<Communicator> direct_communicator(std::unique_ptr<Communicator> control,
                                                  std::shared_ptr<DeviceLinks> links, double seconds = kDirectSeconds);

}  // namespace trireme
