// Collectives that run while their caller computes, over any backend.
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
#include "comm/flight_recorder.h"
#include "trireme/communicator.h"

namespace trireme {

/// The duration and the counts of one operation. Its waits do not count as the rank's idle time, since the rank
/// computes meanwhile.
struct OperationDone {
  double begin = 0, end = 0;  ///< on the rank's clock, Communicator::now()
  CommunicationCount count;
};

/// A thread that executes operations in the order in which they were started. All ranks of the group must start the
/// same operations in the same order. The object belongs to one thread, its rank's, which may use other communicators
/// meanwhile. An operation's counts are in its handle, not in the communicator that the group was made from.
class CollectiveQueue {
 public:
  /// `group` is used by this queue alone from now on. `device`: the device that the operations' memory is attributed to
  /// (base/memory.h). Operations compute with as many threads as operators of the thread that makes the queue.
  explicit CollectiveQueue(std::unique_ptr<Communicator> group, int device = kNoDevice);
  /// Waits for all started operations. Failures that were not requested through a handle are dropped. An operation that
  /// fails aborts the group; all later operations end with its error. A rank that stops in the middle of its work must
  /// call abort first: otherwise the destructor waits for operations that other ranks may never start.
  ~CollectiveQueue();
  CollectiveQueue(const CollectiveQueue&) = delete;
  CollectiveQueue& operator=(const CollectiveQueue&) = delete;

  /// Returns at once. The handle's get() waits for the operation and rethrows its exception. Destroying a handle does
  /// not wait. The operation's tensors must not be used before get() has returned. In modelled time only get() may wait
  /// for the operation, only on the queue's owner thread, and only while the queue exists.
  std::future<OperationDone> start(std::function<void(Communicator&)> operation);
  /// True if a started operation has not ended. Only in modelled time, and only on the queue's owner thread.
  bool has_work() const { return started_ > done_.load(); }
  /// Returns the error of the first operation that failed, or null.
  std::exception_ptr failure() const;

 private:
  void work(int device, int threads);
  bool await_work();
  void note(std::atomic<int64_t>& count);
  OperationDone carry_out(const std::function<void(Communicator&)>& operation, const FlightRecorder::Place& place);

  const std::unique_ptr<Communicator> group_;
  const FlightRecorder* const recorder_;  // may be null
  VirtualTime* const time_;               // null in real time
  int runner_ = -1;                       // number of the queue's thread in modelled time; -1 in real time
  // Counters on which threads wait in modelled time. told_: operations started, and the end of the queue; done_:
  // operations done; ended_: 1 when the queue's thread has ended.
  std::atomic<int64_t> told_{0}, done_{0}, ended_{0};
  int64_t started_ = 0, heard_ = 0;  // used by the queue's owner and by its thread, respectively
  mutable Mutex mutex_;
  std::exception_ptr failure_ TRIREME_GUARDED_BY(mutex_);
  ConditionVariable changed_;
  std::deque<std::packaged_task<OperationDone()>> waiting_ TRIREME_GUARDED_BY(mutex_);
  bool ending_ TRIREME_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace trireme
