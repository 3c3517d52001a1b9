#include "base/devices/side_stream.h"

#include "base/devices/device.h"
#include "base/devices/gpu.h"

namespace trireme {

SideStream::SideStream() : guard_(worker_place().is_cuda() ? use_side_stream() : nullptr) {}

EarlierWork::EarlierWork() {
  if (worker_place().is_cuda()) event_ = record_gpu_event();
  else await_device();
}

void EarlierWork::precede() const {
  if (event_) continue_after(event_);
}

void use_here(const at::Tensor& tensor) {
  if (tensor.is_cuda()) keep_for_current_stream(tensor);
}

}  // namespace trireme
