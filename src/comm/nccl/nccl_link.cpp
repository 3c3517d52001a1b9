#include "comm/nccl/nccl_link.h"

#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "comm/nccl/nccl.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds kSpins{200}, kLookInterval{20};  // sleeping would lengthen short waits
constexpr std::chrono::milliseconds kPatienceInterval{50};
constexpr std::chrono::seconds kGoodbye{5};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

/// A stream of the link's own, not one of libtorch's pool: if two links shared a stream, each could wait for the peers
/// of the other.
class NcclLink::Stream {
 public:
  explicit Stream(c10::Device gpu) : gpu_(gpu) {
    const c10::cuda::CUDAGuard guard(gpu_);
    int least = 0, greatest = 0;
    C10_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    C10_CUDA_CHECK(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest));
  }
  ~Stream() {
    const c10::cuda::CUDAGuard guard(gpu_);
    cudaStreamDestroy(stream_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }
  c10::cuda::CUDAStream wrapped() const { return c10::cuda::getStreamFromExternal(stream_, gpu_.index()); }

 private:
  const c10::Device gpu_;
  cudaStream_t stream_ = nullptr;
};

NcclLink::NcclLink(const std::string& id, int rank, int size, c10::Device gpu, LinkPatience patience)
    : nccl_(*nccl_library()),
      rank_(rank),
      size_(size),
      gpu_(gpu),
      patience_(std::move(patience)),
      stream_(std::make_unique<Stream>(gpu)) {
  const c10::cuda::CUDAGuard guard(gpu_);
  ncclUniqueId key;
  check_internal(id.size() == sizeof key.internal, "an id of NCCL has a fixed length");
  std::memcpy(key.internal, id.data(), sizeof key.internal);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;  // so that the host can give up
  try {
    settle(nccl_.init_rank(&comm_, size, key, rank, &config), "connecting the GPUs");
  } catch (...) {
    if (comm_) nccl_.abort(comm_);
    throw;
  }
}

NcclLink::~NcclLink() {
  const c10::cuda::CUDAGuard guard(gpu_);
  bool ended = !failed_;
  ncclResult_t result = ended ? nccl_.finalize(comm_) : ncclSuccess;
  for (const auto start = Clock::now(); ended && result == ncclInProgress;) {
    if (Clock::now() - start > kGoodbye || nccl_.get_async_error(comm_, &result) != ncclSuccess) ended = false;
    else std::this_thread::sleep_for(kLookInterval);
  }
  if (ended && result == ncclSuccess) nccl_.destroy(comm_);
  else nccl_.abort(comm_);
}

void NcclLink::require_success(ncclResult_t result, const std::string& doing) {
  if (result == ncclSuccess) return;
  failed_ = true;
  patience_(0, doing);  // the loss of another rank is the better reason
  fail_run({doing, fmt::format("NCCL reports: {}", nccl_.get_error_string(result)), nccl_.get_last_error(comm_),
            "look at the other ranks' output, or at NCCL's with NCCL_DEBUG=INFO"});
}

void NcclLink::wait_until(const std::function<bool()>& done, const std::string& doing) {
  const auto start = Clock::now();
  auto next_doubt = start + kPatienceInterval;
  try {
    while (!done()) {
      const auto now = Clock::now();
      if (now - start > kSpins) std::this_thread::sleep_for(kLookInterval);
      if (now < next_doubt) continue;
      next_doubt = now + kPatienceInterval;
      patience_(seconds_since(start), doing);
    }
  } catch (...) {
    failed_ = true;
    throw;
  }
}

void NcclLink::settle(ncclResult_t result, const std::string& doing) {
  if (result != ncclInProgress) return require_success(result, doing);
  wait_until(
      [&] {
        require_success(nccl_.get_async_error(comm_, &result), doing);
        return result != ncclInProgress;
      },
      doing);
  require_success(result, doing);
}

void NcclLink::start_after_caller() {
  at::cuda::CUDAEvent ready;
  ready.record(c10::cuda::getCurrentCUDAStream(gpu_.index()));
  ready.block(stream_->wrapped());
}

void NcclLink::wait_for_gpu(const std::string& doing) {
  at::cuda::CUDAEvent done;
  done.record(stream_->wrapped());
  ncclResult_t error = ncclSuccess;
  wait_until(
      [&] {
        if (done.query()) return true;
        require_success(nccl_.get_async_error(comm_, &error), doing);
        if (error != ncclInProgress) require_success(error, doing);
        return false;
      },
      doing);
}

void NcclLink::run(const std::function<ncclResult_t()>& ask, const std::string& doing) {
  require_success(nccl_.group_start(), doing);
  const ncclResult_t asked = ask(), ended = nccl_.group_end();
  if (asked != ncclSuccess && asked != ncclInProgress) require_success(asked, doing);
  settle(ended, doing);
  wait_for_gpu(doing);
}

void NcclLink::exchange(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from,
                        const std::string& doing) {
  const c10::cuda::CUDAGuard guard(gpu_);
  start_after_caller();
  const auto ask = [&] {
    ncclResult_t worst = ncclSuccess;
    const auto note = [&](ncclResult_t result) {
      if (result != ncclSuccess && worst == ncclSuccess) worst = result;
    };
    for (int step = 1; step < size_; ++step) {
      const int next = (rank_ + step) % size_, before = (rank_ + size_ - step) % size_;
      const at::Tensor &sent = to[size_t(next)], &received = from[size_t(before)];
      if (sent.numel() > 0) note(nccl_.send(sent.data_ptr(), sent.nbytes(), ncclUint8, next, comm_, stream_->get()));
      if (received.numel() > 0)
        note(nccl_.receive(received.data_ptr(), received.nbytes(), ncclUint8, before, comm_, stream_->get()));
    }
    return worst;
  };
  run(ask, doing);
  const at::Tensor &own = to[size_t(rank_)], &kept = from[size_t(rank_)];
  if (kept.numel() > 0 && kept.data_ptr() != own.data_ptr()) kept.copy_(own);
}

void NcclLink::broadcast(const at::Tensor& tensor, int root, const std::string& doing) {
  const c10::cuda::CUDAGuard guard(gpu_);
  start_after_caller();
  void* const data = tensor.data_ptr();
  run([&] { return nccl_.broadcast(data, data, tensor.nbytes(), ncclUint8, root, comm_, stream_->get()); }, doing);
}

void NcclLink::send(const at::Tensor& tensor, int to, const WorkBefore& before, const std::string& doing) {
  const c10::cuda::CUDAGuard guard(gpu_);
  static_cast<at::cuda::CUDAEvent*>(before.get())->block(stream_->wrapped());
  run([&] { return nccl_.send(tensor.data_ptr(), tensor.nbytes(), ncclUint8, to, comm_, stream_->get()); }, doing);
}

void NcclLink::receive(const at::Tensor& tensor, int from, const std::string& doing) {
  const c10::cuda::CUDAGuard guard(gpu_);
  start_after_caller();  // the memory may still be read by earlier work
  run([&] { return nccl_.receive(tensor.data_ptr(), tensor.nbytes(), ncclUint8, from, comm_, stream_->get()); }, doing);
}

namespace {

class NcclLinks final : public DeviceLinks {
 public:
  explicit NcclLinks(c10::Device gpu) : gpu_(gpu) {}

  c10::Device device() const override { return gpu_; }

  std::string make_id() override {
    ncclUniqueId id;
    const NcclLibrary* const nccl = nccl_library();
    if (const ncclResult_t result = nccl->get_unique_id(&id); result != ncclSuccess)
      fail_run({"NCCL", nccl->get_error_string(result), nccl->get_last_error(nullptr),
                "look at its messages with NCCL_DEBUG=INFO"});
    return {id.internal, sizeof id.internal};
  }

  std::unique_ptr<DeviceLink> connect(const std::string& id, int member, int members,
                                      const LinkPatience& patience) override {
    return std::make_unique<NcclLink>(id, member, members, gpu_, patience);
  }

  WorkBefore work_before() override {
    const c10::cuda::CUDAGuard guard(gpu_);
    auto event = std::make_shared<at::cuda::CUDAEvent>();
    event->record(c10::cuda::getCurrentCUDAStream(gpu_.index()));
    return event;
  }

 private:
  const c10::Device gpu_;
};

}  // namespace

bool nccl_available() { return true; }

std::string nccl_obstacle() {
  std::string why;
  nccl_library(&why);
  return why;
}

std::shared_ptr<DeviceLinks> nccl_links(c10::Device gpu) {
  if (const std::string obstacle = nccl_obstacle(); !obstacle.empty())
    fail_run({"backend nccl", obstacle, "", "use another backend: gloo, or mpi"});
  return std::make_shared<NcclLinks>(gpu);
}

}  // namespace trireme
