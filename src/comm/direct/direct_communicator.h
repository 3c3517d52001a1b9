// A communicator whose tensors travel from device to device, while another one carries everything else.
#pragma once

#include <memory>

#include "comm/direct/device_link.h"
#include "trireme/communicator.h"

namespace trireme {

/// Seconds after which an operation that does not finish is an error, if the other ranks are alive.
inline constexpr double kDirectSeconds = 600;

/// A communicator with the ranks of `control`. Tensors in memory of the links' device travel over links; tensors of the
/// host, texts and barriers go through `control`. All tensors of an operation are of one kind, on all ranks; an
/// all_to_all without data is one of the device.
///
/// Each rank adds up its part in rank order, so sums have the same bits as with other backends. An operation's
/// transfers have ended when it returns; the device may still add up or copy what arrived, in the order of the calling
/// thread's work. An abort, a rank that is gone and the time limit end the host's waits. Calls that do not match are
/// noticed by the time limit only.
///
/// Errors: those of `control` and of the links.
std::unique_ptr<Communicator> direct_communicator(std::unique_ptr<Communicator> control,
                                                  std::shared_ptr<DeviceLinks> links, double seconds = kDirectSeconds);

}  // namespace trireme
