#include "comm/collective_queue.h"

#include <ATen/ATen.h>

#include <utility>

#include "comm/flight_recorder.h"

namespace trireme {

CollectiveQueue::CollectiveQueue(std::unique_ptr<Communicator> group, int device)
    : group_(std::move(group)), thread_([this, device] { work(device); }) {
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

std::future<void> CollectiveQueue::start(std::function<void(Communicator&)> operation) {
  std::packaged_task<void(Communicator&)> task(std::move(operation));
  std::future<void> handle = task.get_future();
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(task));
  }
  changed_.notify_all();
  return handle;
}

std::future<void> CollectiveQueue::start_all_reduce(at::Tensor tensor, ReduceOp op) {
  return start([tensor = std::move(tensor), op](Communicator& group) mutable { group.all_reduce(tensor, op); });
}

void CollectiveQueue::work(int device) {
  const DeviceScope of_device(device);
  const MemoryScope buffers(MemoryCategory::buffers);
  while (true) {
    std::packaged_task<void(Communicator&)> task;
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
