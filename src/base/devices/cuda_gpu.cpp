// The only file of this room that includes CUDA's headers.
#include "base/devices/gpu.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/version.h>

#include <mutex>
#include <span>

#include "base/memory.h"

namespace trireme {
namespace {

using c10::cuda::CUDACachingAllocator::TraceEntry;

/// The allocator calls it for every event, under its lock: it must not throw and must not allocate on the GPU.
void account(const TraceEntry& entry) {
  if (entry.action_ == TraceEntry::ALLOC) note_block(uintptr_t(entry.addr_), int64_t(entry.size_));
  if (entry.action_ == TraceEntry::FREE_COMPLETED) forget_block(uintptr_t(entry.addr_));
}

/// CUDA writes 13.0 as 13000.
std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

}  // namespace

std::vector<Gpu> visible_gpus() {
  std::vector<Gpu> gpus;
  if (!at::hasCUDA()) return gpus;
  for (int i = 0; i < int(c10::cuda::device_count()); ++i) {
    const cudaDeviceProp* properties = at::cuda::getDeviceProperties(c10::DeviceIndex(i));
    gpus.push_back({properties->name, int64_t(properties->totalGlobalMem), properties->multiProcessorCount,
                    fmt::format("{}.{}", properties->major, properties->minor),
                    fmt::format("{:02x}", fmt::join(std::span<const char, 16>(properties->uuid.bytes), ""))});
  }
  return gpus;
}

bool has_peer_access(int from, int of) {
  return from == of || at::cuda::canDeviceAccessPeer(c10::DeviceIndex(from), c10::DeviceIndex(of));
}

std::string cuda_versions() {
  int runtime = 0, driver = 0;
  cudaRuntimeGetVersion(&runtime);
  cudaDriverGetVersion(&driver);
  const long cudnn = at::detail::getCUDAHooks().hasCuDNN() ? at::detail::getCUDAHooks().versionCuDNN() : 0;
  std::string text = fmt::format("CUDA {}, driver for CUDA {}", version_text(runtime), version_text(driver));
  if (cudnn >= 90000) text += fmt::format(", cuDNN {}.{}.{}", cudnn / 10000, cudnn % 10000 / 100, cudnn % 100);
  else if (cudnn > 0) text += fmt::format(", cuDNN {}.{}.{}", cudnn / 1000, cudnn % 1000 / 100, cudnn % 100);
  return text;
}

void install_gpu_memory_accounting() {
  static std::once_flag once;
  if (!at::hasCUDA() || c10::cuda::device_count() == 0) return;
  std::call_once(once, [] {
  // creates the allocator, but no context on any GPU
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 7)
    at::globalContext().lazyInitDevice(at::kCUDA);
#else
    at::globalContext().lazyInitCUDA();
#endif
    c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker(account);
  });
}

int64_t library_memory_bytes() { return at::hasCUDA() ? int64_t(at::cuda::getChosenWorkspaceSize()) : 0; }

void take_library_memory() {
  const DeviceScope uncounted(kNoDevice);
  const auto options = at::TensorOptions().dtype(at::kFloat).device(at::kCUDA);
  at::mm(at::zeros({8, 8}, options), at::zeros({8, 8}, options));
}

std::shared_ptr<void> record_gpu_event() {
  auto event = std::make_shared<at::cuda::CUDAEvent>(cudaEventDefault);  // with its time
  event->record();
  return event;
}

double gpu_seconds_between(const std::shared_ptr<void>& begin, const std::shared_ptr<void>& end) {
  auto& first = *static_cast<at::cuda::CUDAEvent*>(begin.get());
  auto& last = *static_cast<at::cuda::CUDAEvent*>(end.get());
  last.synchronize();
  return double(first.elapsed_time(last)) * 1e-3;
}

std::shared_ptr<void> use_side_stream() {
  return std::make_shared<c10::cuda::CUDAStreamGuard>(c10::cuda::getStreamFromPool(/*isHighPriority=*/true));
}

void continue_after(const std::shared_ptr<void>& event) {
  static_cast<at::cuda::CUDAEvent*>(event.get())->block(c10::cuda::getCurrentCUDAStream());
}

void keep_for_current_stream(const at::Tensor& tensor) {
  c10::cuda::CUDACachingAllocator::recordStream(tensor.storage().data_ptr(), c10::cuda::getCurrentCUDAStream());
}

void release_kept_gpu_memory() {
  if (at::hasCUDA() && at::globalContext().hasCUDA()) c10::cuda::CUDACachingAllocator::emptyCache();
}

}  // namespace trireme
