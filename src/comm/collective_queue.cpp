#include "comm/collective_queue.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <chrono>
#include <utility>

#include "base/text.h"
#include "comm/group_member.h"
#include "comm/virtual/virtual_time.h"
#include "trireme/error.h"

namespace trireme {

CollectiveQueue::CollectiveQueue(std::unique_ptr<Communicator> group, int device)
    : group_(std::move(group)), recorder_(flight_recorder(*group_)), time_(group_->virtual_time()) {
  if (time_) runner_ = time_->add();
  if (auto* const member = dynamic_cast<GroupMember*>(group_.get())) member->work_beside();
  thread_ = std::thread([this, device, threads = at::get_num_threads()] { work(device, threads); });
}

CollectiveQueue::~CollectiveQueue() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (time_) {
    try {
      note(told_);
      time_->wait_for(ended_, 1);
    } catch (const std::exception&) {  // an abort: the thread ends without getting another turn
    }
  }
  thread_.join();
}

/// Advances a counter that threads wait for. Does nothing in real time.
void CollectiveQueue::note(std::atomic<int64_t>& count) {
  if (time_) time_->advance(count, 1);
}

std::future<OperationDone> CollectiveQueue::start(std::function<void(Communicator&)> operation) {
  std::packaged_task<OperationDone()> task(
      [this, operation = std::move(operation), place = recorder_ ? recorder_->place() : FlightRecorder::Place()]() {
        return carry_out(operation, place);
      });
  std::future<OperationDone> handle = task.get_future();
  {
    const MutexLock lock(mutex_);
    waiting_.push_back(std::move(task));
  }
  changed_.notify_all();
  if (!time_) return handle;
  note(told_);
  return std::async(std::launch::deferred, [this, number = ++started_, done = std::move(handle)]() mutable {
    try {
      time_->wait_for(done_, number);
    } catch (const std::exception&) {
      if (done.wait_for(std::chrono::seconds(0)) != std::future_status::ready) throw;
    }
    return done.get();
  });
}

std::exception_ptr CollectiveQueue::failure() const {
  const MutexLock lock(mutex_);
  return failure_;
}

OperationDone CollectiveQueue::carry_out(const std::function<void(Communicator&)>& operation,
                                         const FlightRecorder::Place& place) {
  if (const std::exception_ptr before = failure()) std::rethrow_exception(before);
  const OperationsOf of_its_start(place);
  const CommunicationCount before = group_->count();
  OperationDone done;
  done.begin = group_->now();
  try {
    operation(*group_);
  } catch (const std::exception& error) {
    {
      const MutexLock lock(mutex_);
      failure_ = std::current_exception();
    }
    group_->abort(first_line(error));  // the other ranks are in this operation, and this rank will join no later one
    throw;
  }
  done.end = group_->now();
  done.count = group_->count() - before;
  return done;
}

/// Waits until an operation is waiting. Returns false if there is none and none will come.
bool CollectiveQueue::await_work() {
  MutexLock lock(mutex_);
  if (!time_) changed_.wait(mutex_, [&]() TRIREME_REQUIRES(mutex_) { return ending_ || !waiting_.empty(); });
  while (waiting_.empty() && !ending_) {
    lock.unlock();
    time_->wait_for(told_, ++heard_, /*waits_for=*/"");
    lock.lock();
  }
  return !waiting_.empty();
}

void CollectiveQueue::work(int device, int threads) {
  at::get_num_threads();  // otherwise the first operator would set its own number
  at::set_num_threads(threads);
  const DeviceScope of_device(device);
  const MemoryScope buffers(MemoryCategory::buffers);
  try {
    if (time_) time_->enter(runner_);
    while (await_work()) {
      std::packaged_task<OperationDone()> task;
      {
        const MutexLock lock(mutex_);
        task = std::move(waiting_.front());
        waiting_.pop_front();
      }
      task();  // an exception is stored in the handle
      note(done_);
    }
    note(ended_);
    if (time_) time_->leave();
  } catch (const std::exception&) {  // modelled time was aborted, and with it the started operations
  }
}

}  // namespace trireme
