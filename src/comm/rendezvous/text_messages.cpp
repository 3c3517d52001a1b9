#include "comm/rendezvous/text_messages.h"

#include <ATen/ATen.h>

#include <cstring>

#include "base/memory.h"

namespace trireme {
namespace {

// messages of training have no negative tags
constexpr int64_t kGatherTag = -1, kBroadcastTag = -2;

}  // namespace

void send_text(Communicator& communicator, const std::string& text, int to, int64_t tag) {
  const DeviceScope no_device(kNoDevice);
  at::Tensor bytes = at::empty({int64_t(text.size())}, at::kByte);
  if (!text.empty()) std::memcpy(bytes.data_ptr(), text.data(), text.size());
  communicator.send(bytes, to, tag);
}

std::string receive_text(Communicator& communicator, int from, int64_t tag) {
  const DeviceScope no_device(kNoDevice);
  const at::Tensor bytes = communicator.receive(from, tag);
  return bytes.defined() ? std::string(static_cast<const char*>(bytes.data_ptr()), size_t(bytes.numel()))
                         : std::string();
}

std::vector<std::string> gather_texts(Communicator& communicator, const std::string& text) {
  if (communicator.rank() != 0) {
    send_text(communicator, text, 0, kGatherTag);
    return {};
  }
  std::vector<std::string> texts{text};
  for (int rank = 1; rank < communicator.size(); ++rank) texts.push_back(receive_text(communicator, rank, kGatherTag));
  return texts;
}

std::string broadcast_text(Communicator& communicator, const std::string& text) {
  if (communicator.rank() != 0) return receive_text(communicator, 0, kBroadcastTag);
  for (int rank = 1; rank < communicator.size(); ++rank) send_text(communicator, text, rank, kBroadcastTag);
  return text;
}

}  // namespace trireme
