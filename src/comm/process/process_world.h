// One rank's connections to all other ranks, shared by its communicator and the groups made from it.
//
// Threads: one reader per peer receives frames as they arrive and sorts them into queues, so that a sender never waits
// for this rank's program. One releaser frees sent tensors. One keeper reads the shared keys for an abort. A reader
// whose connection ends marks the peer as gone; this is an error only for a thread that waits for that peer. One
// watcher checks that the other ranks are alive.
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
#include "comm/message_buffers.h"
#include "comm/process/abort_keeper.h"
#include "comm/process/frame.h"
#include "comm/process/life_signs.h"
#include "comm/process/posted_receives.h"
#include "comm/process/world_options.h"
#include "trireme/backend.h"

namespace trireme {

/// Returns what a transport's error means for a peer that is gone, without the file and line of the transport's source
/// with which gloo's texts begin.
std::string loss_in_words(const std::string& transport_error);

/// Thread-safe. All rank numbers are world ranks.
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

  /// Sends `data` (dense, in memory order, header.bytes of them) without waiting. If the data do not fit into the
  /// frame, returns the transfer of the payload: wait for it before changing `data`. Otherwise returns null. `doing`
  /// names the operation in errors, here and below.
  std::unique_ptr<Transfer> post(FrameHeader header, const at::Tensor& data, int to, const std::string& doing);

  /// As post, but this world waits for the transfer's end.
  void post_and_forget(FrameHeader header, const at::Tensor& data, int to, const std::string& doing);

  /// Returns the oldest message from `from` with this tag or, for collectives, the next part of any collective of this
  /// group. `tag` for collectives: the number of the call that waits. Adds the time waited, in seconds, to `waited`.
  Arrival take(int from, FrameKind kind, int64_t group, int64_t tag, const std::string& doing, double& waited);

  /// Begins to receive the payload into `target` (contiguous, of the right size). Returns null if the data are already
  /// there.
  std::unique_ptr<Transfer> fetch(const Arrival& arrival, const at::Tensor& target, int from, const std::string& doing);
  void finish(std::unique_ptr<Transfer> transfer, int peer, const std::string& doing);

  /// If one of these ranks is gone, aborts the world. Throws a run error if the world was aborted.
  void require_there(const std::vector<int>& ranks, const std::string& doing);

  /// Aborts the world and throws a run error, or the error of an earlier abort.
  [[noreturn]] void fail(const std::string& doing, const std::string& what, const std::string& why,
                         const std::string& next);

  /// As fail, for two ranks whose operations cannot both finish.
  [[noreturn]] void fail_mismatch(const std::string& doing, int other, const std::string& others_doing);

  /// Throws an internal error if two lists of ranks share one id.
  void register_group(int64_t id, const std::string& members);
  /// Declares that a thread other than the rank's main thread calls this group's collectives. So one of the two threads
  /// may continue while the other waits.
  void work_beside(int64_t group);

  MessageBuffers buffers() const;

 private:
  using Clock = std::chrono::steady_clock;
  using Address = std::tuple<FrameKind, int64_t, int64_t>;  // kind, group, tag (0 for collectives)

  struct Peer {
    std::map<Address, std::deque<Arrival>> queues;
    std::optional<std::string> gone;  // why its connection ended, or that it has left
    bool left = false;                // it has said that it leaves; its last payloads may still be under way
    Clock::time_point left_at{};
    bool saw_leaving = false;           // it knows that this rank leaves
    Transfer* reading = nullptr;        // what its reader thread waits for
    uint64_t payloads = 0;              // number of payloads sent to it so far without a posted receive
    Clock::time_point heard_waiting{};  // when it last reported that it waits for a rank
    FrameHeader waiting;                // that report
    // by group: the newest collective call of which a part was sent to it
    std::map<int64_t, int64_t> given;
    std::thread reader;
  };
  struct Sent {
    std::unique_ptr<Transfer> transfer;
    int to = 0;
    std::string doing;
    bool matters = true;  // whether its failure is a failure of the run
  };

  void read_frames(int from);
  bool wait_for_frame(int from, Transfer& transfer);  ///< false: cancelled
  bool accept(int from, Arrival arrival);             ///< false: no frame follows
  void deliver(int from, Arrival arrival);
  std::unique_ptr<Transfer> send_frame(FrameHeader& header, const at::Tensor& data, int to);
  void begin_to_receive(int from, Arrival& arrival);
  void post_receives(int from);
  bool has_room(int64_t bytes) const;
  void claim(const at::Tensor& tensor);
  void mark_gone(int peer, const std::string& why);
  void keep_until_sent(Sent sent);
  void release_sent();
  void release(Sent sent);
  void wake_all();
  void set_aborted(const std::string& reason);
  /// Returns false if cancelled: aborted, or the peer is gone. Such a transfer may nevertheless have finished before.
  bool wait_registered(Transfer& transfer, int peer, std::chrono::milliseconds limit);
  int next_payload_tag(int to);
  void say_waiting(int awaited, const FrameHeader& header, const std::string& doing);
  bool waits_in_vain(const Peer& peer, const FrameHeader& own) const;
  static bool is_waiting(const Peer& peer);
  std::vector<int> awaited_in_turn(int peer) const;
  /// `progress`: by rank, at the previous call
  bool has_moved(int peer, std::map<int, uint64_t>& progress);
  void watch();
  [[noreturn]] void fail_peer(const std::string& doing, int peer, const std::string& why);
  [[noreturn]] void fail_silence(const std::string& doing, int peer);
  void close_sends();
  void part_from_others();
  bool note_leaving(int peer, FrameKind kind);  ///< false: no frame follows
  bool has_left(int peer) const;
  void host_until_others_left();
  void leave();
  std::chrono::milliseconds timeout() const;

  const WorldOptions options_;
  std::unique_ptr<Transport> transport_;
  const std::shared_ptr<FlightRecorder> recorder_;
  const std::shared_ptr<LifeSigns> signs_;
  const bool ends_are_seen_;  // of Connections
  std::unique_ptr<AbortKeeper> keeper_;
  std::vector<PostedReceives> posted_receives_;  // by world rank; an entry is only accessed by the rank's reader
  mutable Mutex order_;                          // of messages
  // receives of messages from this rank that the others have posted, by world rank
  std::vector<PostedSizes> posted_by_others_ TRIREME_GUARDED_BY(order_);

  mutable Mutex mutex_;
  ConditionVariable arrived_;   // an item in a queue, or none can come any more
  ConditionVariable sending_;   // work for the releaser, or nothing left to send
  ConditionVariable ending_;    // a peer is gone, an abort, or the end
  ConditionVariable watching_;  // the end
  bool aborted_ TRIREME_GUARDED_BY(mutex_) = false;
  std::string reason_ TRIREME_GUARDED_BY(mutex_);
  bool stopping_ TRIREME_GUARDED_BY(mutex_) = false;  // true: reading, watching and releasing stop
  bool closing_ TRIREME_GUARDED_BY(mutex_) = false;   // true after the program's last operation
  // by world rank; the entry of this rank holds messages to itself
  std::vector<Peer> peers_ TRIREME_GUARDED_BY(mutex_);
  // transfers that threads of this rank wait for, with their peers
  std::map<Transfer*, int> waited_for_ TRIREME_GUARDED_BY(mutex_);
  std::deque<Sent> sent_ TRIREME_GUARDED_BY(mutex_);
  bool releasing_ TRIREME_GUARDED_BY(mutex_) = false;
  bool release_soon_ TRIREME_GUARDED_BY(mutex_) = false;
  // bytes of the storage of payloads received before a call of take()
  int64_t unclaimed_bytes_ TRIREME_GUARDED_BY(mutex_) = 0;
  std::map<int64_t, std::string> groups_ TRIREME_GUARDED_BY(mutex_);
  std::set<int64_t> beside_ TRIREME_GUARDED_BY(mutex_);

  std::thread releaser_, watcher_;
};

}  // namespace trireme
