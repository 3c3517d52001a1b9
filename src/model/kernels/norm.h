// Inner loops of batch norm, fused with ReLU and residual addition, on rows of `channels` contiguous elements (a
// channels_last activation [n, c, h, w] is n*h*w such rows). Bound by memory bandwidth: every pass reads each tensor
// once.
//
// Arithmetic is float for float and bfloat16 elements and double for double ones. Sums over many rows are double.
// Single-threaded (a worker is one thread). Thread-safe. Pointers must not overlap unless stated.
#pragma once

#include <cstdint>

namespace trireme::kernels {

/// A bfloat16 element: the upper half of a float.
struct BFloat16Bits {
  uint16_t bits;
};

template <class Element>
struct ArithmeticOf {
  using type = Element;
};
template <>
struct ArithmeticOf<BFloat16Bits> {
  using type = float;
};
template <class Element>
using Arithmetic = typename ArithmeticOf<Element>::type;

/// How backward obtains the ReLU's mask: none (no ReLU); from_input: recomputes the output from the input (no
/// residual); from_output: the sign of the saved output.
enum class Mask { none, from_input, from_output };

/// Per channel: output = (input - mean) * scale + shift, all arrays of `channels` values.
template <class Element>
struct NormCoefficients {
  const Arithmetic<Element>* mean = nullptr;
  const Arithmetic<Element>* scale = nullptr;
  const Arithmetic<Element>* shift = nullptr;
};

template <class Element>
struct NormalizeArguments {
  int64_t rows = 0, channels = 0;
  NormCoefficients<Element> coefficients;
  const Element* input = nullptr;
  const Element* residual = nullptr;  ///< null: none
  Element* output = nullptr;
  bool relu = false;
};

template <class Element>
struct NormBackwardArguments {
  int64_t rows = 0, channels = 0;
  NormCoefficients<Element> coefficients;
  const Element* input = nullptr;
  const Element* output = nullptr;  ///< read only for Mask::from_output
  const Element* output_gradient = nullptr;
  Mask mask = Mask::none;
  /// Only for `backward_sums`: null, or receives g (an exact, masked copy of the output gradient).
  Element* residual_gradient = nullptr;
  // Only for `input_gradient`. With g the masked output gradient: dx = scale * (g - mean_gradient - (x - mean) *
  // slope).
  const Arithmetic<Element>* mean_gradient = nullptr;
  const Arithmetic<Element>* slope = nullptr;
  Element* input_gradient = nullptr;
};

template <class Element>
struct NormKernels {
  /// Computes mean[c] and m2[c] (sum of squared distances from the mean) over all rows. Row blocks that fit the
  /// first-level cache are centred on their own (corrected) mean and merged by the pairwise update of Chan, Golub and
  /// LeVeque, so a large mean costs no digits.
  void (*moments)(const Element* input, int64_t rows, int64_t channels, double* mean, double* m2);
  void (*normalize)(const NormalizeArguments<Element>& arguments);
  /// sum[c] = sum of g, sum_centred[c] = sum of g * (x - mean).
  void (*backward_sums)(const NormBackwardArguments<Element>& arguments, double* sum, double* sum_centred);
  void (*input_gradient)(const NormBackwardArguments<Element>& arguments);
};

/// Returns the fastest version that this machine's instruction set supports. Element: float, double or BFloat16Bits.
template <class Element>
const NormKernels<Element>& norm_kernels();

// One table per instruction set. Each is compiled from norm_loops.h in its own file.
namespace baseline {
template <class Element>
const NormKernels<Element>& table();
}
namespace avx2 {
bool supported();
template <class Element>
const NormKernels<Element>& table();
}  // namespace avx2
namespace avx512 {
bool supported();
template <class Element>
const NormKernels<Element>& table();
}  // namespace avx512

}  // namespace trireme::kernels
