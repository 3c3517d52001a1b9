// Backend `nccl`: each process drives one GPU, tensors are in its memory, and c10d's NCCL transfers them.
#pragma once

#include <memory>

#include "comm/gloo/gloo.h"
#include "trireme/communicator.h"

namespace trireme {

struct NcclOptions {
  /// Rendezvous and all communication except tensors, over gloo. NCCL's own rendezvous uses the same address at the
  /// next port, or the same file name with the suffix ".nccl".
  WorldOptions control;
  /// The number of the GPU, among those that libtorch sees.
  int gpu = 0;
};

/// True if this build has the backend: libtorch with CUDA and c10d's NCCL.
bool nccl_available();
/// Number of GPUs that libtorch sees; 0 without the backend.
int nccl_gpus();

/// Tensors of collectives must be on the GPU and, for reductions, of a dtype that can be reduced on the other backends
/// too. NCCL exchanges the parts, and the GPU that owns a part adds it up in rank order, as on the other backends, so
/// that sums have the same bits. Messages (send, receive) go through host memory and gloo. Every operation has ended on
/// the GPU before it returns. An abort ends the host's waits. Calls that do not match are detected only by the time
/// limit.
///
/// Errors: as gloo_communicator. User: no such GPU. Run: a build without the backend.
std::unique_ptr<Communicator> nccl_communicator(const NcclOptions& options);

}  // namespace trireme
