// What libtorch's CUDA half knows, for builds with it and without.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace trireme {

struct Gpu {
  std::string name;      ///< "NVIDIA H200"
  int64_t memory_bytes;  ///< of the whole GPU
  int multiprocessors;
  std::string capability;  ///< "9.0"
  std::string id;          ///< the same for all processes, and no other GPU's
};

/// Returns the GPUs that this process can use, by index; empty if this build has no CUDA or the machine no GPU. Starts
/// CUDA, after which the process must not fork.
std::vector<Gpu> visible_gpus();

/// Returns whether GPU `from` can read the memory of GPU `of` directly.
bool has_peer_access(int from, int of);

/// "CUDA 13.0, driver for CUDA 13.0, cuDNN 9.19.0"; "" if this build has no CUDA.
std::string cuda_versions();

/// Attributes each block of libtorch's CUDA allocator to the device and the category of the thread that requests it
/// (base/memory.h). Idempotent. Does nothing without CUDA.
void install_gpu_memory_accounting();

/// Returns the bytes of GPU memory that cuBLAS keeps for each thread that multiplies matrices; 0 without CUDA.
int64_t library_memory_bytes();
/// Makes cuBLAS take that memory for this thread, on its current GPU, without counting it (base/memory.h): it outlives
/// the thread, and a later thread uses it again. Requires CUDA.
void take_library_memory();

/// Records an event in the current stream of this thread's GPU. Requires CUDA.
std::shared_ptr<void> record_gpu_event();
/// Waits for `end`. Returns the seconds between the two events, which are of one GPU.
double gpu_seconds_between(const std::shared_ptr<void>& begin, const std::shared_ptr<void>& end);

/// Returns a guard. While it exists, this thread's work for its current GPU goes to another stream than other threads'.
/// Requires CUDA, as the next two.
std::shared_ptr<void> use_side_stream();
/// Makes the current stream of this thread's GPU wait for the event. The host does not wait.
void continue_after(const std::shared_ptr<void>& event);
/// Frees the tensor's memory, later, only after the current stream's work of that time.
void keep_for_current_stream(const at::Tensor& tensor);

/// Gives memory that libtorch keeps for later back to the GPUs, so that other processes can have it.
void release_kept_gpu_memory();

}  // namespace trireme
