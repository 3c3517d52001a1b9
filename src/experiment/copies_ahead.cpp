#include "experiment/copies_ahead.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <utility>

#include "base/devices/device.h"
#include "base/memory.h"

namespace trireme {

CopiesAhead::CopiesAhead(int device) : thread_([this, device] { work(device); }) {}

CopiesAhead::~CopiesAhead() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CopiesAhead::begin(int64_t number, const Kind& kind, Load load) {
  const auto requested = requested_.find(kind);
  {
    MutexLock lock(mutex_);
    changed_.wait(mutex_, [&]() TRIREME_REQUIRES(mutex_) { return done_; });
    used_ = std::exchange(newest_, {});
    if (requested == requested_.end()) return;
    newest_.number = number;
    done_ = false;
    task_ = Task{number, requested->second, std::move(load)};
  }
  changed_.notify_all();
}

void CopiesAhead::note(int64_t number, const Kind& kind, Range range) {
  std::vector<Range>& ranges = requested_[kind];
  if (number != noted_) ranges.clear();
  noted_ = number;
  ranges.push_back(range);
}

std::vector<at::Tensor> CopiesAhead::take_copy(Copied& copied, Range range) const {
  if (copied.error) std::rethrow_exception(copied.error);
  const auto found =
      std::find_if(copied.copies.begin(), copied.copies.end(), [&](const Copy& copy) { return copy.range == range; });
  if (found == copied.copies.end()) return {};
  found->work.precede();
  std::vector<at::Tensor> tensors = std::move(found->tensors);
  copied.copies.erase(found);
  for (const at::Tensor& tensor : tensors) use_here(tensor);
  return tensors;
}

std::vector<at::Tensor> CopiesAhead::take(int64_t number, const Kind& kind, Range range, const Load& load) {
  note(number, kind, range);
  {
    MutexLock lock(mutex_);
    if (newest_.number == number) {  // no batch follows it
      changed_.wait(mutex_, [&]() TRIREME_REQUIRES(mutex_) { return done_; });
      used_ = std::exchange(newest_, {});
    }
  }
  std::vector<at::Tensor> tensors;
  if (used_.number == number) tensors = take_copy(used_, range);
  return tensors.empty() ? load(range, /*pinned=*/false) : tensors;
}

std::vector<CopiesAhead::Copy> CopiesAhead::carry_out(const Task& task) const {
  const c10::Device place = worker_place();
  const MemoryScope buffers(MemoryCategory::buffers);
  std::vector<Copy> copies;
  for (const Range& range : task.ranges) {
    std::vector<at::Tensor> tensors = task.load(range, place.is_cuda());
    for (at::Tensor& tensor : tensors) tensor = tensor.to(place, tensor.scalar_type(), /*non_blocking=*/true);
    copies.push_back({range, std::move(tensors), EarlierWork()});
  }
  return copies;
}

void CopiesAhead::work(int device) {
  at::get_num_threads();  // otherwise the first operator would set its own number
  at::set_num_threads(1);
  const DeviceScope of_device(device);
  const SideStream stream;
  while (true) {
    std::optional<Task> task;
    {
      MutexLock lock(mutex_);
      changed_.wait(mutex_, [&]() TRIREME_REQUIRES(mutex_) { return ending_ || task_; });
      if (ending_) return;
      task.swap(task_);
    }
    std::vector<Copy> copies;
    std::exception_ptr error;
    try {
      copies = carry_out(*task);
    } catch (...) {
      error = std::current_exception();
    }
    task.reset();
    {
      const MutexLock lock(mutex_);
      newest_.copies = std::move(copies);
      newest_.error = error;
      done_ = true;
    }
    changed_.notify_all();
  }
}

}  // namespace trireme
