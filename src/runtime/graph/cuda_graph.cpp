// The only file of this room that includes CUDA's headers.
#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include "base/devices/device.h"
#include "runtime/graph/device_graph.h"

namespace trireme {
namespace {

class CudaGraph final : public DeviceGraph {
 public:
  void record() override {
    // The recorded step gets memory of its own. Memory that earlier steps left unused is released now, because it
    // cannot be released while a step is recorded.
    c10::cuda::CUDACachingAllocator::emptyCache();
    // ThreadLocal: calls of this thread that cannot be recorded are errors; other threads may allocate memory
    // meanwhile.
    graph_.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  }
  void end() override { graph_.capture_end(); }
  void give_up() noexcept override {
    try {
      graph_.capture_end();
    } catch (...) {  // the error that ended the recording is reported; this one follows from it
    }
  }
  void replay() override { graph_.replay(); }

 private:
  at::cuda::CUDAGraph graph_;
};

class CudaRecordingStream final : public RecordingStream {
 public:
  CudaRecordingStream() : guard_(after_all_work(at::cuda::getStreamFromPool())) {
    // Shapes stay the same from step to step, so it pays to search for the fastest algorithms in the steps before the
    // recording.
    at::globalContext().setBenchmarkCuDNN(true);
  }
  ~CudaRecordingStream() override {
    at::globalContext().setBenchmarkCuDNN(searched_before_);
    try {
      c10::cuda::device_synchronize();
    } catch (...) {  // an error of the device has already ended the step that caused it
    }
  }

 private:
  static at::cuda::CUDAStream after_all_work(const at::cuda::CUDAStream& stream) {
    c10::cuda::device_synchronize();
    return stream;
  }

  const bool searched_before_ = at::globalContext().benchmarkCuDNN();
  const c10::cuda::CUDAStreamGuard guard_;
};

}  // namespace

std::unique_ptr<RecordingStream> make_recording_stream() {
  return worker_place().is_cuda() ? std::make_unique<CudaRecordingStream>() : nullptr;
}

std::unique_ptr<DeviceGraph> make_device_graph() {
  return worker_place().is_cuda() ? std::make_unique<CudaGraph>() : nullptr;
}

}  // namespace trireme
