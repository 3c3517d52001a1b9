#include "comm/process/posted_receives.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "trireme/error.h"

namespace trireme {
namespace {

constexpr size_t kRecent = 256;  // messages by whose sizes the next ones are expected

}  // namespace

std::optional<PostedSizes::Receive> PostedSizes::use(int64_t bytes) {
  if (bytes > kPostedBytes) return std::nullopt;
  recent_.push_back(bytes);
  if (recent_.size() > kRecent) recent_.pop_front();
  if (posted_.empty()) return std::nullopt;
  if (bytes > posted_.front().bytes) {  // all are replaced by greater ones
    posted_.clear();
    return std::nullopt;
  }
  const Receive used = posted_.front();
  posted_.pop_front();
  return used;
}

std::optional<PostedSizes::Receive> PostedSizes::post() {
  if (recent_.empty() || posted_.size() == size_t(kPostedReceives)) return std::nullopt;
  posted_.push_back({count_++, *std::max_element(recent_.begin(), recent_.end())});
  return posted_.back();
}

std::optional<PostedReceives::Received> PostedReceives::use(int64_t bytes) {
  const auto used = sizes_.use(bytes);
  if (!used) return std::nullopt;
  check_internal(!posted_.empty() && posted_.front().number == used->number, "a posted receive is missing");
  Received received = std::move(posted_.front().received);
  posted_.pop_front();
  if (!received.transfer) return std::nullopt;
  received.bytes = received.bytes.narrow(0, 0, bytes);
  return received;
}

void PostedReceives::post(bool has_room, const Begin& begin) {
  while (const auto next = sizes_.post()) {
    posted_.push_back({next->number, {}});
    if (!has_room) continue;
    Received& received = posted_.back().received;
    received.bytes = at::empty({next->bytes}, at::kByte);
    received.transfer = begin(received.bytes, next->number);
  }
  while (posted_.size() > size_t(kPostedReceives)) posted_.pop_front();  // those that were replaced
}

}  // namespace trireme
