// One rank's connections to all others, shared by its communicator and the groups made from it.
//
// Threads: one reader per peer takes frames as they come and sorts them into queues, so that a sender never waits for
// this rank's program; one releaser lets go of sent tensors; one keeper looks for an abort in the shared keys. A reader
// that sees its connection end marks the peer as gone, which is an error only for whoever waits for it. One watcher
// looks whether the others live.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/mutex.h"
#include "comm/process/abort_keeper.h"
#include "comm/process/frame.h"
#include "comm/process/life_signs.h"
#include "comm/process/transport.h"
#include "comm/process/world_options.h"

namespace trireme {

/// Thread-safe. Ranks are those of the world.
class ProcessWorld {
 public:
  ProcessWorld(const WorldOptions& options, Connections connections);
  ~ProcessWorld();
  ProcessWorld(const ProcessWorld&) = delete;
  ProcessWorld& operator=(const ProcessWorld&) = delete;

  int rank() const { return options_.rank; }
  int size() const { return options_.size; }
  FlightRecorder& recorder() { return *recorder_; }

  void abort(const std::string& reason);
  std::string abort_reason() const;
  void throw_if_aborted() const;

  /// Sends `data` (dense; in memory order; header.bytes of it) without waiting. When it is too long for the frame, the
  /// transfer of its payload, to be waited for before `data` may change; else nothing. `doing` names the operation in
  /// errors, here and below.
  std::unique_ptr<Transfer> post(FrameHeader header, const at::Tensor& data, int to, const std::string& doing);

  /// As post, but the transfer's end is this world's business.
  void post_and_forget(FrameHeader header, const at::Tensor& data, int to, const std::string& doing);

  /// The oldest message with this tag, or else part of any collective of this group, from `from`. `tag`: for
  /// collectives, the number of the call that waits. Adds the seconds waited.
  Arrival take(int from, FrameKind kind, int64_t group, int64_t tag, const std::string& doing, double& waited);

  /// Begins to receive the payload into `target` (contiguous, right size); done if there is none to wait for.
  std::unique_ptr<Transfer> fetch(const Arrival& arrival, const at::Tensor& target, int from, const std::string& doing);
  void finish(std::unique_ptr<Transfer> transfer, int peer, const std::string& doing);

  /// Aborts the world and throws: a run error, or the abort that came first.
  [[noreturn]] void fail(const std::string& doing, const std::string& what, const std::string& why,
                         const std::string& next);

  /// As fail, for two ranks that are in operations that cannot both end.
  [[noreturn]] void fail_mismatch(const std::string& doing, int other, const std::string& others_doing);

  /// Fails if two lists of ranks share one id.
  void register_group(int64_t id, const std::string& members);
  /// Another thread than the rank's own calls this group's collectives: it may go on while that one waits.
  void work_beside(int64_t group);

 private:
  using Clock = std::chrono::steady_clock;
  using Address = std::tuple<FrameKind, int64_t, int64_t>;  // kind, group, tag (0 for collectives)

  struct Peer {
    std::map<Address, std::deque<Arrival>> queues;  // guarded by the world's mutex_
    std::optional<std::string> gone;                // why its connection ended
    Transfer* reading = nullptr;                    // what its reader waits for
    int payloads = 0;                               // sent to it so far
    Clock::time_point heard_waiting{};              // when it last said that it waits for some rank
    FrameHeader waiting;                            // what it said then
    std::map<int64_t, int64_t> given;               // by group: the newest collective call that it was sent a part of
    std::thread reader;
  };
  struct Sent {
    std::unique_ptr<Transfer> transfer;
    int to = 0;
    std::string doing;
    bool matters = true;  // whether its failure is one of the run
  };

  void read_frames(int from);
  bool read_frame(int from, const at::Tensor& frame);
  void deliver(int from, Arrival arrival);
  void mark_gone(int peer, const std::string& why);
  void keep_until_sent(Sent sent);
  void release_sent();
  void release(Sent sent);
  void wake_all();
  void set_aborted(const std::string& reason);
  /// False when cancelled: aborted, or the peer is gone. Such a transfer may have been done before that.
  bool wait_registered(Transfer& transfer, int peer, std::chrono::milliseconds limit);
  int next_payload_tag(int to);
  void say_waiting(int awaited, const FrameHeader& header, const std::string& doing);
  bool waits_in_vain(const Peer& peer, const FrameHeader& own) const;
  void watch();
  [[noreturn]] void fail_peer(const std::string& doing, int peer, const std::string& why);
  [[noreturn]] void fail_silence(const std::string& doing, int peer);
  void close_sends();
  void host_until_others_left();
  void leave();
  std::chrono::milliseconds timeout() const;

  const WorldOptions options_;
  std::unique_ptr<Transport> transport_;
  const std::shared_ptr<FlightRecorder> recorder_;
  const std::shared_ptr<LifeSigns> signs_;
  const bool ends_are_seen_;  // of Connections
  std::unique_ptr<AbortKeeper> keeper_;

  mutable Mutex mutex_;
  ConditionVariable arrived_;   // something in a queue, or no hope of it
  ConditionVariable sending_;   // something for the releaser, or nothing left
  ConditionVariable ending_;    // a peer is gone, an abort, the end
  ConditionVariable watching_;  // the end
  bool aborted_ TRIREME_GUARDED_BY(mutex_) = false;
  std::string reason_ TRIREME_GUARDED_BY(mutex_);
  bool stopping_ TRIREME_GUARDED_BY(mutex_) = false;    // no more reading, watching, releasing
  bool closing_ TRIREME_GUARDED_BY(mutex_) = false;     // the program has had its last operation
  std::vector<Peer> peers_ TRIREME_GUARDED_BY(mutex_);  // by world rank; own: messages to itself
  // transfers that a thread of this rank waits for, with the peer
  std::map<Transfer*, int> waited_for_ TRIREME_GUARDED_BY(mutex_);
  std::deque<Sent> sent_ TRIREME_GUARDED_BY(mutex_);
  bool releasing_ TRIREME_GUARDED_BY(mutex_) = false;
  bool release_soon_ TRIREME_GUARDED_BY(mutex_) = false;
  int64_t unclaimed_bytes_ TRIREME_GUARDED_BY(mutex_) = 0;  // of payloads received before anybody asked
  std::map<int64_t, std::string> groups_ TRIREME_GUARDED_BY(mutex_);
  std::set<int64_t> beside_ TRIREME_GUARDED_BY(mutex_);

  std::thread releaser_, watcher_;
};

}  // namespace trireme
