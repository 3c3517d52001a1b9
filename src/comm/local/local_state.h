// What the workers of a local world share: waits, aborts, mailboxes and the register of groups.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/mutex.h"

namespace trireme {

class EmulatedLinks;
class VirtualTime;
struct LocalGroup;

/// Thread-safe. Kept alive by the world and by each of its communicators.
class LocalState {
 public:
  /// `links` is null if no links are emulated.
  explicit LocalState(int size, std::shared_ptr<EmulatedLinks> links = nullptr);

  int size() const { return size_; }

  void abort(const std::string& reason);
  bool aborted() const { return aborted_.load(std::memory_order_acquire); }
  std::string abort_reason() const;
  void throw_if_aborted() const;

  /// See LocalWorld. Also throws if the target was reached in an aborted world, because the data may then be
  /// incomplete.
  double wait_for(const std::atomic<int64_t>& counter, int64_t target,
                  double until = std::numeric_limits<double>::infinity(), const char* what = "the others");
  double now() const;
  void advance(std::atomic<int64_t>& counter, int64_t by);

  /// Identifies a queue of a receiver's mailbox: group, sender (rank in the group), tag.
  using Address = std::tuple<int64_t, int, int64_t>;
  using Time = std::chrono::steady_clock::time_point;
  /// `there`: when the message has arrived over the link.
  void post(int receiver, const Address& address, at::Tensor message, Time there = {});
  /// Waits for the oldest message. Adds the seconds waited to `waited`, without those spent on the link.
  at::Tensor take(int receiver, const Address& address, double& waited);

  /// See LocalWorld.
  void move_beside_computing() { moves_beside_computing_ = true; }
  bool moves_beside_computing() const { return moves_beside_computing_; }

  /// Puts waits and transfers on these clocks. Call it before any communication. Bytes then move beside computing.
  void live_by(std::shared_ptr<VirtualTime> time);
  VirtualTime* virtual_time() const { return virtual_time_.get(); }

  /// True if transfers take longer than moving the bytes in memory.
  bool times_transfers() const { return links_ || virtual_time_; }
  /// Return the end time of a transfer that starts now: of a message between world ranks, or of the call at which all
  /// members of a group have arrived.
  Time message_there(int from, int to, int64_t bytes);
  Time carried(const LocalGroup& group);
  /// Sleeps until `time`. Throws a run error if aborted.
  void sleep_until(Time time) const;

  /// Returns the group of these world ranks. The members' `occurrence`-th requests for one list under one parent return
  /// the same group.
  std::shared_ptr<LocalGroup> group(int64_t parent, const std::vector<int>& world_ranks, int64_t occurrence);

 private:
  std::atomic<bool> moves_beside_computing_{false};

  /// Where threads sleep that wait for counters with one hash value.
  struct alignas(64) Lot {
    Mutex mutex;
    ConditionVariable changed;
    std::atomic<int> sleepers{0};
  };
  struct Mailbox {
    Mutex mutex;
    std::map<Address, std::deque<std::pair<at::Tensor, Time>>> queues TRIREME_GUARDED_BY(mutex);
    std::atomic<int64_t> posted{0};  // messages so far; advanced after the push
  };
  struct Founding {
    std::shared_ptr<LocalGroup> group;
    int members_missing = 0;
  };
  using GroupKey = std::tuple<int64_t, std::vector<int>, int64_t>;

  Lot& lot_of(const void* counter);
  bool spin(const std::atomic<int64_t>& counter, int64_t target) const;
  void sleep(const std::atomic<int64_t>& counter, int64_t target, double until);
  double wait_for_turn(const std::atomic<int64_t>& counter, int64_t target, double until, const char* what);

  const int size_;
  const bool may_spin_;
  const std::shared_ptr<EmulatedLinks> links_;
  std::shared_ptr<VirtualTime> virtual_time_;  // null in real time
  std::array<Lot, 64> lots_;
  std::vector<Mailbox> mailboxes_;  // by world rank of the receiver

  std::atomic<bool> aborted_{false};
  mutable Mutex reason_mutex_;
  std::string reason_ TRIREME_GUARDED_BY(reason_mutex_);

  Mutex groups_mutex_;
  // groups that some members have not requested yet
  std::map<GroupKey, Founding> foundings_ TRIREME_GUARDED_BY(groups_mutex_);
  int64_t next_group_ TRIREME_GUARDED_BY(groups_mutex_) = 0;
};

}  // namespace trireme
