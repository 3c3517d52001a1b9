// ProcessWorld: aborts and failures.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "comm/process/process_world.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kWatchInterval{200};
constexpr milliseconds kFresh{2000};  // after a report, the rank counts as waiting for this time
constexpr milliseconds kLastPart{5000};

constexpr const char* kMatchingCalls =
    "all ranks of a group must make the same calls in the same order, with tensors that fit together";

}  // namespace

void ProcessWorld::set_aborted(const std::string& reason) {
  {
    MutexLock lock(mutex_);
    if (aborted_) return;
    aborted_ = true;
    reason_ = reason;
    for (const auto& [transfer, peer] : waited_for_) transfer->cancel();
  }
  wake_all();
  if (reason.find(kMatchingCalls) == reason.npos) return;
  for (const std::string& operation : recorder_->read().last)
    spdlog::error("rank {}, last operations: {}", rank(), operation);
}

void ProcessWorld::watch() {
  MutexLock lock(mutex_);
  while (
      !watching_.wait_for(mutex_, kWatchInterval, [&]() TRIREME_REQUIRES(mutex_) { return stopping_ || aborted_; })) {
    std::vector<bool> gone;
    for (const Peer& peer : peers_) gone.push_back(peer.gone.has_value());
    lock.unlock();
    transport_->look();
    const std::string reason = signs_->silence(keeper_->answers(), gone);
    if (!reason.empty()) abort(reason);
    lock.lock();
  }
}

// The shared key decides which reason is the world's. The abort frames reach the other ranks sooner than they read the
// key, and also if the rank that hosts the key is frozen.
void ProcessWorld::abort(const std::string& reason) {
  const std::string first = keeper_->propose(reason);
  set_aborted(first);
  FrameHeader header;
  header.kind = FrameKind::abort;
  header.bytes = std::min<int64_t>(static_cast<int64_t>(first.size()), kInlineBytes);
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    try {
      keep_until_sent(
          {transport_->send(pack_frame(header, first.data()), peer, kFrameTag), peer, "", /*matters=*/false});
    } catch (const std::exception&) {
      // The peer is already gone.
    }
  }
}

std::string ProcessWorld::abort_reason() const {
  MutexLock lock(mutex_);
  return reason_;
}

void ProcessWorld::throw_if_aborted() const {
  std::string reason;
  {
    MutexLock lock(mutex_);
    if (!aborted_) return;
    reason = reason_;
  }
  fail_run({.where = "", .what = "communication between the workers was stopped", .why = reason, .next = ""});
}

void ProcessWorld::require_there(const std::vector<int>& ranks, const std::string& doing) {
  throw_if_aborted();
  for (const int peer : ranks) {
    std::optional<std::string> gone;
    {
      const MutexLock lock(mutex_);
      const Peer& of = peers_[size_t(peer)];
      // A rank that left a moment ago has already sent its part of the present operation.
      if (!of.left || Clock::now() > of.left_at + kLastPart) gone = of.gone;
    }
    if (gone) fail_peer(doing, peer, *gone);
  }
}

void ProcessWorld::fail(const std::string& doing, const std::string& what, const std::string& why,
                        const std::string& next) {
  throw_if_aborted();
  const Error error(Blame::run,
                    {.where = fmt::format("rank {}, {}", rank(), doing), .what = what, .why = why, .next = next});
  abort(error.what());
  if (abort_reason() != error.what()) throw_if_aborted();
  throw error;
}

std::string loss_in_words(const std::string& transport_error) {
  // [../gloo/transport/tcp/pair.cc:598] Connection closed by peer ...
  const size_t place = transport_error.starts_with("[") ? transport_error.find("] ") : std::string::npos;
  if (place == std::string::npos) return transport_error;
  // "Read error [127.0.0.1]:62619: Connection reset by peer" or "Connection closed by peer [127.0.0.1]:8013"
  std::string text = transport_error.substr(place + 2);
  const size_t open = text.find(" ["), close = text.find("]:");
  if (open != text.npos && close != text.npos && open < close) {
    const size_t end = std::min(text.find(": ", close + 2), text.size());
    const std::string address = text.substr(open + 2, close - open - 2) + ":" + text.substr(close + 2, end - close - 2);
    text = (end == text.size() ? text.substr(0, open) : text.substr(end + 2)) + ", address " + address;
  }
  return fmt::format("its process has ended or its connection is broken ({})", text);
}

// A failing rank may already have closed its connections, so other ranks may notice its absence before they learn the
// reason. This function does not wait for the reason.
void ProcessWorld::fail_peer(const std::string& doing, int peer, const std::string& why) {
  const std::string cause = loss_in_words(why);
  const std::string where = signs_->heard(peer).standing;
  fail(doing, fmt::format("rank {} is gone", peer),
       where.empty() ? cause : fmt::format("{}; its last sign of life was {}", cause, where_of(where)),
       fmt::format("look at the end of rank {}'s output", peer));
}

void ProcessWorld::fail_silence(const std::string& doing, int peer) {
  const std::string where = signs_->heard(peer).standing;
  fail(doing, fmt::format("rank {} did not answer for {} s", peer, std::chrono::duration<double>(timeout()).count()),
       where.empty() ? "it hangs, was stopped, or waits for something else" : fmt::format("it is {}", where_of(where)),
       fmt::format("look at the end of rank {}'s output, or allow more time", peer));
}

bool ProcessWorld::is_waiting(const Peer& peer) { return Clock::now() - peer.heard_waiting < kFresh; }

/// Returns `peer`, the rank that it waits for, the rank that this one waits for, and so on.
std::vector<int> ProcessWorld::awaited_in_turn(int peer) const {
  std::vector<int> ranks;
  MutexLock lock(mutex_);
  while (peer >= 0 && peer < size() && peer != rank() && std::find(ranks.begin(), ranks.end(), peer) == ranks.end()) {
    ranks.push_back(peer);
    const Peer& last = peers_[size_t(peer)];
    peer = is_waiting(last) ? last.waiting.awaited : -1;
  }
  return ranks;
}

// A rank that waits makes no progress itself, but the rank that it waits for may.
bool ProcessWorld::has_moved(int peer, std::map<int, uint64_t>& progress) {
  bool moved = false;
  for (const int one : awaited_in_turn(peer)) {
    const uint64_t now = signs_->ask(one).progress;
    moved |= std::exchange(progress[one], now) != now;
  }
  return moved;
}

void ProcessWorld::fail_mismatch(const std::string& doing, int other, const std::string& others_doing) {
  std::pair<int, std::string> first{rank(), doing}, second{other, others_doing};
  if (other < rank()) std::swap(first, second);
  fail("collective",
       fmt::format("rank {} called {}, rank {} called {}", first.first, first.second, second.first, second.second),
       kMatchingCalls, "compare the two ranks' instructions and last operations");
}

void ProcessWorld::mark_gone(int peer, const std::string& why) {
  {
    MutexLock lock(mutex_);
    if (!peers_[peer].gone) peers_[peer].gone = why;
    // The transport notifies a thread that waits for a payload only if the payload's first byte has not arrived.
    for (const auto& [transfer, of] : waited_for_)
      if (of == peer) transfer->cancel();
  }
  wake_all();
}

}  // namespace trireme
