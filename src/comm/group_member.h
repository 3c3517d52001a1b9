// What the communicators of all backends have in common: counting, and checks of their callers' arguments.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "comm/flight_recorder.h"
#include "trireme/communicator.h"

namespace trireme {

/// What was done between two counts of one communicator.
CommunicationCount operator-(const CommunicationCount& after, const CommunicationCount& before);

/// Counts of a communicator. They are also added to those of the communicator that it was made from. Thread-safe:
/// groups of one rank may be used by several threads.
class Tally {
 public:
  explicit Tally(std::shared_ptr<Tally> parent) : parent_(std::move(parent)) {}
  void add(const CommunicationCount& more);
  CommunicationCount count() const;
  /// From now on, counts are no longer added to the parent's.
  void detach();

 private:
  mutable Mutex mutex_;
  std::shared_ptr<Tally> parent_ TRIREME_GUARDED_BY(mutex_);
  CommunicationCount count_ TRIREME_GUARDED_BY(mutex_);
};

/// "Float [4, 5]", or "nothing" if undefined: for messages.
std::string shape_text(const at::Tensor& tensor);

class GroupMember : public Communicator {
 public:
  int rank() const final { return rank_; }
  CommunicationCount count() const final { return tally_->count(); }
  /// From now on, a thread other than its rank's uses this communicator (comm/collective_queue.h,
  /// update/hub/rank_world.h). Its counts are then separate from its parent's.
  virtual void work_beside() { tally_->detach(); }
  /// For an operation that waits and bypasses this communicator. If a member is gone, aborts the world. Throws a run
  /// error if the world was aborted. `doing` names the operation. Thread-safe.
  virtual void require_all_there(const std::string& doing) { static_cast<void>(doing); }
  /// See flight_recorder() in comm/flight_recorder.h.
  virtual FlightRecorder* recorder() { return nullptr; }

 protected:
  GroupMember(int rank, std::shared_ptr<Tally> parent);

  /// If `condition` is false, aborts the world and throws an internal error. Without the abort, the other ranks would
  /// wait for this rank for ever.
  void require(bool condition, const std::string& operation, const std::string& promise);
  void require_rank(int rank, const std::string& operation);
  /// Counts an operation. Bytes and steps are those of comm/formulas.h.
  void record(int64_t bytes, int64_t steps, double waited);
  const std::shared_ptr<Tally>& tally() const { return tally_; }

  /// Returns this rank's number in a new group of `ranks`. They must be ascending and contain this rank.
  int rank_in(std::span<const int> ranks);
  /// Returns how many groups of these world ranks have been requested before.
  int64_t count_request(const std::vector<int>& world_ranks) { return requests_[world_ranks]++; }

 private:
  const int rank_;
  const std::shared_ptr<Tally> tally_;
  std::map<std::vector<int>, int64_t> requests_;
};

/// Returns the bytes of each tensor; 0 for an undefined one.
std::vector<int64_t> bytes_of_each(std::span<const at::Tensor> tensors);
int64_t bytes_of(const at::Tensor& tensor);

}  // namespace trireme
