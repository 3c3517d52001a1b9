// A way from device to device that bypasses memory of the host, such as NCCL's.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trireme {

/// Called repeatedly while the host waits for a link. Throws if the wait must end, for example because another rank is
/// gone. Thread-safe. `seconds`: waited so far. `doing`: the operation, for messages.
using LinkPatience = std::function<void(double seconds, const std::string& doing)>;

/// The work that was launched on a device before a certain moment; null if the device has finished it.
using WorkBefore = std::shared_ptr<void>;

/// Connects the devices of some ranks, its members, which are numbered from 0; this rank is one of them. Used by one
/// thread. In every function the host waits until the device has finished. If the LinkPatience throws, the function
/// throws too; the link can then only be destroyed. Tensors are contiguous and in the device's memory.
class DeviceLink {
 public:
  /// Waits at most a short time for the other members; after a failure it does not wait.
  virtual ~DeviceLink() = default;

  /// Sends `to[q]` to member q and receives member q's part for this one into `from[q]`, all at once. A tensor without
  /// elements is not sent. This member's own part is copied, unless both tensors are the same memory. Begins when the
  /// device has finished the work that the calling thread has launched.
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
  /// Returns the id of a new link. One member makes it and sends it to the others.
  virtual std::string make_id() = 0;
  /// Waits for the other members, which call it with the same id.
  virtual std::unique_ptr<DeviceLink> connect(const std::string& id, int member, int members,
                                              const LinkPatience& patience) = 0;
  /// Returns the work that the calling thread has launched on the device so far.
  virtual WorkBefore work_before() = 0;
};

}  // namespace trireme
