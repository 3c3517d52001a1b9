// Backend `nccl`: each process drives one GPU, tensors lie in its memory, c10d's NCCL moves them.
#pragma once

#include <memory>

#include "comm/gloo/gloo.h"
#include "trireme/communicator.h"

namespace trireme {

struct NcclOptions {
  /// Where the ranks meet and what they say to each other beside tensors: over gloo. NCCL's own meeting place is that
  /// address at the next port, or that file with ".nccl" behind its name.
  WorldOptions control;
  /// The GPU, among those that libtorch sees.
  int gpu = 0;
};

/// Whether this build has the backend: libtorch with CUDA and c10d's NCCL.
bool nccl_available();
/// That libtorch sees here; 0 without the backend.
int nccl_gpus();

/// Tensors of collectives must lie on the GPU and be of a dtype that can be reduced elsewhere too. Parts are exchanged
/// by NCCL and added in rank order on the GPU that owns them, as on other backends, so that sums have the same bits.
/// Messages (send, receive) go through the host's memory and gloo. Every operation ends on the GPU before it returns.
/// An abort ends the host's waits; calls that do not match are found by the time limit only.
///
/// Errors: as gloo_communicator; user: no such GPU; run: a build without the backend.
std::unique_ptr<Communicator> nccl_communicator(const NcclOptions& options);

}  // namespace trireme
