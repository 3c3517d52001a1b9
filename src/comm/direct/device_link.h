// A way from device to device that bypasses memory of the host, such as NCCL's.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trireme {

/// Called again and again while the host waits for a link. Throws if the wait is in vain. Thread-safe. `seconds`:
/// waited so far; `doing`: for messages.
using LinkPatience = std::function<void(double seconds, const std::string& doing)>;

/// What a device was asked to compute before a moment; null if it has computed it.
using WorkBefore = std::shared_ptr<void>;

/// Connects this rank's device with those of some others, its members, which are numbered from 0. Used by one thread.
/// The host waits in every function until the device has finished, and gives up when the patience throws; the link then
/// can only be destroyed. Tensors are contiguous and in the device's memory.
class DeviceLink {
 public:
  /// Waits for the other members for a short time at most, not at all after a failure.
  virtual ~DeviceLink() = default;

  /// Sends `to[q]` to member q and receives member q's part for this one into `from[q]`, all at once. A tensor without
  /// elements is not sent. The own part is copied unless both are the same memory. Begins when the device has computed
  /// what the calling thread asked for.
  virtual void exchange(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from,
                        const std::string& doing) = 0;
  /// Copies member `root`'s values into the tensor of every member. Begins as exchange does.
  virtual void broadcast(const at::Tensor& tensor, int root, const std::string& doing) = 0;
  /// `before`: the work that gives the tensor its values.
  virtual void send(const at::Tensor& tensor, int to, const WorkBefore& before, const std::string& doing) = 0;
  virtual void receive(const at::Tensor& tensor, int from, const std::string& doing) = 0;
};

/// Makes the links of one rank. Thread-safe.
class DeviceLinks {
 public:
  virtual ~DeviceLinks() = default;

  virtual c10::Device device() const = 0;
  /// Returns what all members of a link must know: bytes that one of them makes and sends to the others.
  virtual std::string make_id() = 0;
  /// Waits for the other members, which call it with the same id.
  virtual std::unique_ptr<DeviceLink> connect(const std::string& id, int member, int members,
                                              const LinkPatience& patience) = 0;
  /// Returns what the device has been asked for by the calling thread.
  virtual WorkBefore work_before() = 0;
};

}  // namespace trireme
