// norm.h for machines with AVX-512. Headers are included before the target is set: their inline functions may be shared
// with other files and must not contain instructions that an older machine lacks.
#include <cstdint>
#include <type_traits>

#include "model/kernels/norm.h"

#if defined(__x86_64__)

#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,fma")
#pragma GCC optimize("fp-contract=fast")
#define TRIREME_VECTOR_BYTES 64

namespace trireme::kernels::avx512 {
#include "model/kernels/norm_loops.h"

bool supported() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
}  // namespace trireme::kernels::avx512

#else

namespace trireme::kernels::avx512 {
bool supported() { return false; }
template <class Element>
const NormKernels<Element>& table() {
  return baseline::table<Element>();
}
template const NormKernels<float>& table<float>();
template const NormKernels<double>& table<double>();
template const NormKernels<BFloat16Bits>& table<BFloat16Bits>();
}  // namespace trireme::kernels::avx512

#endif
