#include "comm/collective_queue.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <utility>

#include "base/seconds.h"
#include "comm/flight_recorder.h"
#include "comm/group_member.h"

namespace trireme {
namespace {

OperationDone carry_out(const std::function<void(Communicator&)>& operation, Communicator& group) {
  const CommunicationCount before = group.count();
  OperationDone done;
  done.begin = steady_seconds();
  operation(group);
  done.end = steady_seconds();
  const CommunicationCount after = group.count();
  done.count = {.bytes_sent = after.bytes_sent - before.bytes_sent, .steps = after.steps - before.steps,
                .operations = after.operations - before.operations, .wait_seconds = after.wait_seconds - before.wait_seconds};
  return done;
}

}  // namespace

CollectiveQueue::CollectiveQueue(std::unique_ptr<Communicator> group, int device)
    : group_(std::move(group)) {
  if (auto* const member = dynamic_cast<GroupMember*>(group_.get())) member->count_apart();
  thread_ = std::thread([this, device] { work(device); });
  if (FlightRecorder* recorder = flight_recorder(*group_)) recorder->set_concurrent();
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
  std::packaged_task<OperationDone(Communicator&)> task(
      [operation = std::move(operation)](Communicator& group) { return carry_out(operation, group); });
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

void CollectiveQueue::work(int device) {
  at::get_num_threads();  // else the first operator would set its own number
  at::set_num_threads(1);
  const DeviceScope of_device(device);
  const MemoryScope buffers(MemoryCategory::buffers);
  while (true) {
    std::packaged_task<OperationDone(Communicator&)> task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      task = std::move(waiting_.front());
      waiting_.pop_front();
    }
    task(*group_);  // what it throws is the handle's
  }
}

}  // namespace trireme
