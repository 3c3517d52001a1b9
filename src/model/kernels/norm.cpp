#include "model/kernels/norm.h"

namespace trireme::kernels {

template <class Element>
const NormKernels<Element>& norm_kernels() {
  static const NormKernels<Element>& best = avx512::supported() ? avx512::table<Element>()
                                            : avx2::supported() ? avx2::table<Element>()
                                                                : baseline::table<Element>();
  return best;
}

template const NormKernels<float>& norm_kernels<float>();
template const NormKernels<double>& norm_kernels<double>();
template const NormKernels<BFloat16Bits>& norm_kernels<BFloat16Bits>();

}  // namespace trireme::kernels
