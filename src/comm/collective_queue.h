// Collectives that go on while their caller computes, over any backend.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <thread>

#include "base/memory.h"
#include "base/mutex.h"
#include "comm/communicator.h"
#include "comm/flight_recorder.h"

namespace trireme {

/// What an operation took. Its waits are nobody's idle time, since its rank computes meanwhile.
struct OperationDone {
  double begin = 0, end = 0;  ///< on the rank's clock: Communicator::now()
  CommunicationCount count;
};

/// A thread that works through operations in the order in which they were started. All ranks of the group start the
/// same ones in the same order. Belongs to one thread, its rank's, which goes on to use other communicators meanwhile.
/// What the operations count is in their handles, not in the communicator that the group was made from.
class CollectiveQueue {
 public:
  /// `group`: of this queue alone from here on. `device`: whose memory the operations take (base/memory.h). They
  /// compute with as many threads as operators of the thread that makes the queue.
  explicit CollectiveQueue(std::unique_ptr<Communicator> group, int device = kNoDevice);
  /// Waits for all that was started; what failed and was never asked for is forgotten. A rank that ends in the middle
  /// of its work aborts first: others may never start what it has. An operation that fails aborts, and is what those
  /// after it end with too.
  ~CollectiveQueue();
  CollectiveQueue(const CollectiveQueue&) = delete;
  CollectiveQueue& operator=(const CollectiveQueue&) = delete;

  /// Returns at once. The handle's get() waits for the operation and throws what it threw; a handle that is let go of
  /// waits for nothing. Tensors of the operation belong to it until then. In virtual time the handle cannot be waited
  /// for but by get(), of the queue's own thread, and not after the queue's end.
  std::future<OperationDone> start(std::function<void(Communicator&)> operation);
  /// Of the first operation that failed; null: none did.
  std::exception_ptr failure() const;

 private:
  void work(int device, int threads);
  bool await_work();
  void note(std::atomic<int64_t>& count);
  OperationDone carry_out(const std::function<void(Communicator&)>& operation, const FlightRecorder::Place& place);

  const std::unique_ptr<Communicator> group_;
  const FlightRecorder* const recorder_;  // may be null
  VirtualTime* const time_;               // null: real
  int runner_ = -1;                       // in virtual time
  // where the threads of virtual time wait for each other: operations started, and the end; operations done; threads
  // done
  std::atomic<int64_t> told_{0}, done_{0}, ended_{0};
  int64_t started_ = 0, heard_ = 0;  // of the queue's owner, of its thread
  mutable Mutex mutex_;
  std::exception_ptr failure_ TRIREME_GUARDED_BY(mutex_);
  ConditionVariable changed_;
  std::deque<std::packaged_task<OperationDone()>> waiting_ TRIREME_GUARDED_BY(mutex_);
  bool ending_ TRIREME_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace trireme
