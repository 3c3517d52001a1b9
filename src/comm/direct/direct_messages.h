// Messages between ranks whose tensors are in memory of their devices or of the host.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/direct/device_link.h"
#include "trireme/communicator.h"

namespace trireme {

/// Each message is announced with its tag and shape over the control communicator. If its data are on the host, they
/// follow there. If they are on a device, they are sent over a link between the two ranks; there is one link for each
/// direction, made at the first such message. A receiver takes the messages of a sender in the order in which they were
/// sent, and keeps messages with other tags until they are requested. This object has one thread per receiver that
/// sends to it, so send() never waits. Belongs to one thread.
class DirectMessages {
 public:
  /// `control` is used for announcements and data of the host only.
  DirectMessages(std::unique_ptr<Communicator> control, std::shared_ptr<DeviceLinks> links, LinkPatience patience);
  /// Waits until everything has been sent, unless the control communicator was aborted.
  ~DirectMessages();
  DirectMessages(const DirectMessages&) = delete;
  DirectMessages& operator=(const DirectMessages&) = delete;

  /// `to` is another rank. `tensor` is dense and must not be written to afterwards.
  void send(const at::Tensor& tensor, int to, int64_t tag);
  /// `from` is another rank. Adds the seconds until the message was announced to `waited`.
  at::Tensor receive(int from, int64_t tag, double& waited);

 private:
  class Sender;
  struct Source {
    std::unique_ptr<DeviceLink> link;
    std::map<int64_t, std::deque<at::Tensor>> kept;  ///< by tag
  };
  std::pair<int64_t, at::Tensor> receive_next(int from, double& waited);

  const std::unique_ptr<Communicator> control_;
  const std::shared_ptr<DeviceLinks> links_;
  const LinkPatience patience_;
  std::map<int, std::unique_ptr<Sender>> senders_;  ///< by receiver
  std::map<int, Source> sources_;                   ///< by sender
};

}  // namespace trireme
