#include "comm/collective_queue.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <utility>

#include "base/error.h"
#include "base/seconds.h"
#include "comm/group_member.h"

namespace trireme {

CollectiveQueue::CollectiveQueue(std::unique_ptr<Communicator> group, int device)
    : group_(std::move(group)), recorder_(flight_recorder(*group_)) {
  if (auto* const member = dynamic_cast<GroupMember*>(group_.get())) member->work_beside();
  thread_ = std::thread([this, device, threads = at::get_num_threads()] { work(device, threads); });
}

CollectiveQueue::~CollectiveQueue() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::future<OperationDone> CollectiveQueue::start(std::function<void(Communicator&)> operation) {
  std::packaged_task<OperationDone()> task([this, operation = std::move(operation), place = recorder_ ? recorder_->place() : FlightRecorder::Place()]() {
    return carry_out(operation, place);
  });
  std::future<OperationDone> handle = task.get_future();
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(task));
  }
  changed_.notify_all();
  return handle;
}

std::future<OperationDone> CollectiveQueue::start_all_reduce(at::Tensor tensor, ReduceOp op) {
  return start([tensor = std::move(tensor), op](Communicator& group) mutable { group.all_reduce(tensor, op); });
}

std::exception_ptr CollectiveQueue::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

OperationDone CollectiveQueue::carry_out(const std::function<void(Communicator&)>& operation, const FlightRecorder::Place& place) {
  if (const std::exception_ptr before = failure()) std::rethrow_exception(before);
  const OperationsOf of_its_start(place);
  const CommunicationCount before = group_->count();
  OperationDone done;
  done.begin = steady_seconds();
  try {
    operation(*group_);
  } catch (const std::exception& error) {
    {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
    }
    group_->abort(first_line(error));  // the others are in this operation, this rank will be in no other
    throw;
  }
  done.end = steady_seconds();
  const CommunicationCount after = group_->count();
  done.count = {.bytes_sent = after.bytes_sent - before.bytes_sent, .steps = after.steps - before.steps,
                .operations = after.operations - before.operations, .wait_seconds = after.wait_seconds - before.wait_seconds};
  return done;
}

void CollectiveQueue::work(int device, int threads) {
  at::get_num_threads();  // else the first operator would set its own number
  at::set_num_threads(threads);
  const DeviceScope of_device(device);
  const MemoryScope buffers(MemoryCategory::buffers);
  while (true) {
    std::packaged_task<OperationDone()> task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      task = std::move(waiting_.front());
      waiting_.pop_front();
    }
    task();  // what it throws is the handle's
  }
}

}  // namespace trireme
