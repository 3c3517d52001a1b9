#include "forecast/memory_beside.h"

namespace trireme {

void add(const AgreementMemory& memory, MemoryUse& worker) {
  constexpr auto kActivations = size_t(MemoryCategory::activations), kBuffers = size_t(MemoryCategory::buffers);
  const int64_t without_activations = worker.peak - worker.at_peak[kActivations];
  worker.at_peak[kBuffers] += memory.between;
  worker.peak += memory.between;
  if (without_activations + memory.exchanging <= worker.peak) return;
  worker.at_peak[kActivations] = 0;
  worker.at_peak[kBuffers] += memory.exchanging - memory.between;
  worker.peak = without_activations + memory.exchanging;
}

}  // namespace trireme
