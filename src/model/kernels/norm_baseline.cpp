// norm.h for any machine: 16-byte vectors (SSE2, NEON, ...).
#include <cstdint>
#include <type_traits>

#include "model/kernels/norm.h"

#define TRIREME_VECTOR_BYTES 16

namespace trireme::kernels::baseline {
#include "model/kernels/norm_loops.h"
}  // namespace trireme::kernels::baseline
