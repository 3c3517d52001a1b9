// What the ends of all backends have in common: counting, and refusing calls that make no sense.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "comm/communicator.h"
#include "comm/flight_recorder.h"

namespace trireme {

/// Counts, together with those of the communicator that this one was made from. Thread-safe: groups of one rank may be
/// used by several.
class Tally {
 public:
  explicit Tally(std::shared_ptr<Tally> parent) : parent_(std::move(parent)) {}
  void add(const CommunicationCount& more);
  CommunicationCount count() const;
  /// Nothing is counted together with others' from here on.
  void detach();

 private:
  mutable Mutex mutex_;
  std::shared_ptr<Tally> parent_ TRIREME_GUARDED_BY(mutex_);
  CommunicationCount count_ TRIREME_GUARDED_BY(mutex_);
};

class GroupMember : public Communicator {
 public:
  int rank() const final { return rank_; }
  CommunicationCount count() const final { return tally_->count(); }
  /// Another thread than its rank's uses it from here on (comm/collective_queue.h, update/hub/rank_world.h): it counts
  /// by itself.
  virtual void work_beside() { tally_->detach(); }
  /// As flight_recorder() of comm/flight_recorder.h.
  virtual FlightRecorder* recorder() { return nullptr; }

 protected:
  GroupMember(int rank, std::shared_ptr<Tally> parent);

  /// A broken promise stops all: the others would wait for this rank for ever.
  void require(bool condition, const std::string& operation, const std::string& promise);
  void require_rank(int rank, const std::string& operation);
  /// Counts an operation: bytes and steps by comm/formulas.h.
  void record(int64_t bytes, int64_t steps, double waited);
  const std::shared_ptr<Tally>& tally() const { return tally_; }

  /// This rank's number in a group of `ranks` to be made, which must be ascending and hold it.
  int rank_in(std::span<const int> ranks);
  /// How often a group of these world ranks was asked for before.
  int64_t count_request(const std::vector<int>& world_ranks) { return requests_[world_ranks]++; }

 private:
  const int rank_;
  const std::shared_ptr<Tally> tally_;
  std::map<std::vector<int>, int64_t> requests_;
};

/// Bytes of each; 0 of an undefined tensor.
std::vector<int64_t> bytes_of_each(std::span<const at::Tensor> tensors);
int64_t bytes_of(const at::Tensor& tensor);

}  // namespace trireme
