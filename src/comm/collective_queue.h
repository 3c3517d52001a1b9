// Collectives that go on while their caller computes, over any backend.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>

#include "base/memory.h"
#include "comm/communicator.h"
#include "comm/flight_recorder.h"

namespace trireme {

/// What an operation took. Its waits are nobody's idle time, since its rank computes meanwhile.
struct OperationDone {
  double begin = 0, end = 0;  ///< of base/seconds.h
  CommunicationCount count;
};

/// A thread that works through operations in the order in which they were started. All ranks of the group start the same ones in the same
/// order. Belongs to one thread, its rank's, which goes on to use other communicators meanwhile. What the operations count is in their
/// handles, not in the communicator that the group was made from.
class CollectiveQueue {
 public:
  /// `group`: of this queue alone from here on. `device`: whose memory the operations take (base/memory.h). They compute with as many threads as
  /// operators of the thread that makes the queue.
  explicit CollectiveQueue(std::unique_ptr<Communicator> group, int device = kNoDevice);
  /// Waits for all that was started; what failed and was never asked for is forgotten. A rank that ends in the middle of its work aborts
  /// first: others may never start what it has. An operation that fails aborts, and is what those after it end with too.
  ~CollectiveQueue();
  CollectiveQueue(const CollectiveQueue&) = delete;
  CollectiveQueue& operator=(const CollectiveQueue&) = delete;

  /// Returns at once. The handle's get() waits for the operation and throws what it threw; a handle that is let go of waits for nothing.
  /// Tensors of the operation belong to it until then.
  std::future<OperationDone> start(std::function<void(Communicator&)> operation);
  /// The tensor must not be touched until the handle's get() has returned.
  std::future<OperationDone> start_all_reduce(at::Tensor tensor, ReduceOp op = ReduceOp::sum);
  /// Of the first operation that failed; null: none did.
  std::exception_ptr failure() const;

 private:
  void work(int device, int threads);
  OperationDone carry_out(const std::function<void(Communicator&)>& operation, const FlightRecorder::Place& place);

  const std::unique_ptr<Communicator> group_;
  const FlightRecorder* const recorder_;  // may be null
  mutable std::mutex mutex_;
  std::exception_ptr failure_;  // guarded by mutex_
  std::condition_variable changed_;
  std::deque<std::packaged_task<OperationDone()>> waiting_;  // guarded by mutex_
  bool ending_ = false;                                      // guarded by mutex_
  std::thread thread_;
};

}  // namespace trireme
