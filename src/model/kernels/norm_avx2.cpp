// norm.h for machines with AVX2. Headers are included before the target is set: their inline functions may be shared
// with other files and must not contain instructions that an older machine lacks.
#include <cstdint>
#include <type_traits>

#include "model/kernels/norm.h"

#if defined(__x86_64__)

#pragma GCC target("avx2,fma")
#pragma GCC optimize("fp-contract=fast")
#define TRIREME_VECTOR_BYTES 32

namespace trireme::kernels::avx2 {
#include "model/kernels/norm_loops.h"

bool supported() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
}  // namespace trireme::kernels::avx2

#else

namespace trireme::kernels::avx2 {
bool supported() { return false; }
template <class Element>
const NormKernels<Element>& table() {
  return baseline::table<Element>();
}
template const NormKernels<float>& table<float>();
template const NormKernels<double>& table<double>();
template const NormKernels<BFloat16Bits>& table<BFloat16Bits>();
}  // namespace trireme::kernels::avx2

#endif
