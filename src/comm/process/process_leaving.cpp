// ProcessWorld: the end of a rank's work.
#include <exception>

#include "comm/process/process_world.h"

namespace trireme {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLingerAfterAbort{2000};  // until the other ranks have read the keys
constexpr milliseconds kParting{2000};           // until the other ranks have said that they know of it
constexpr const char* kHasLeft = "its process has ended";

}  // namespace

void ProcessWorld::close_sends() {
  MutexLock lock(mutex_);
  closing_ = true;
  sending_.notify_all();
  sending_.wait_for(mutex_, timeout(),
                    [&]() TRIREME_REQUIRES(mutex_) { return aborted_ || (sent_.empty() && !releasing_); });
}

void ProcessWorld::host_until_others_left() {
  MutexLock lock(mutex_);
  const auto all_left = [&]() TRIREME_REQUIRES(mutex_) {
    for (int peer = 0; peer < size(); ++peer)
      if (peer != rank() && !peers_[peer].gone) return false;
    return true;
  };
  ending_.wait_for(mutex_, timeout(), [&]() TRIREME_REQUIRES(mutex_) { return aborted_ || all_left(); });
  if (aborted_) ending_.wait_for(mutex_, std::min(timeout(), kLingerAfterAbort), all_left);
}

void ProcessWorld::leave() {
  if (abort_reason().empty()) signs_->leave();
}

// Before a payload is sent, the receiver reports to the sender that it is ready, over the connection of the payload. If
// the sender has closed this connection, the report fails, and data that have arrived but were not read are lost. So a
// rank closes its connections only when every other rank has said that it will receive nothing more from this rank, or
// is leaving, too.
void ProcessWorld::part_from_others() {
  if (!transport_->waits_for_receivers() || !abort_reason().empty()) return;
  if (rank() != 0) keeper_->stop();  // the rank that hosts the keys may end before this one
  FrameHeader header;
  header.kind = FrameKind::leaving;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank() || has_left(peer)) continue;
    try {
      keep_until_sent({transport_->send(pack_frame(header, nullptr), peer, kFrameTag), peer, "", /*matters=*/false});
    } catch (const std::exception&) {
      // the peer is gone
    }
  }
  MutexLock lock(mutex_);
  ending_.wait_for(mutex_, kParting, [&]() TRIREME_REQUIRES(mutex_) {
    for (int peer = 0; peer < size(); ++peer)
      if (peer != rank() && !peers_[peer].gone && !peers_[peer].saw_leaving) return aborted_;
    return true;
  });
}

bool ProcessWorld::note_leaving(int peer, FrameKind kind) {
  if (kind == FrameKind::leaving) {
    FrameHeader answer;
    answer.kind = FrameKind::seen_leaving;
    try {
      keep_until_sent({transport_->send(pack_frame(answer, nullptr), peer, kFrameTag), peer, "", /*matters=*/false});
    } catch (const std::exception&) {
      // the peer has closed the connection without waiting for the answer
    }
  }
  {
    MutexLock lock(mutex_);
    Peer& noted = peers_[peer];
    if (kind == FrameKind::seen_leaving) {
      noted.saw_leaving = true;
    } else {
      noted.left = true;
      noted.left_at = Clock::now();
    }
    if (noted.left && !noted.gone) noted.gone = kHasLeft;
  }
  wake_all();
  return kind != FrameKind::leaving;
}

bool ProcessWorld::has_left(int peer) const {
  MutexLock lock(mutex_);
  return peers_[peer].left;
}

}  // namespace trireme
