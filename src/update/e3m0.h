// Values in 4 bits: a sign and 3 bits of exponent, no mantissa (E3M0), with one float32 scale per 1024 values.
//
// The format of the outer gradients in Douillard et al., "Streaming DiLoCo with overlapping communication", 2025. The
// paper does not define the scale; here it is the block's largest magnitude. A value is encoded as the nearest of 0 and
// plus or minus scale 2^-k, k = 0 .. 6. Of two equally near ones, the one with the larger magnitude is taken.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace trireme {

/// Number of values per scale.
constexpr int64_t kE3m0Block = 1024;

/// Returns the encoded size in bytes: half a byte per value and 4 bytes per block.
int64_t e3m0_bytes(int64_t values);

/// `values`: flat, float or double, of any device. Returns uint8 [e3m0_bytes] on the CPU. If a block contains a value
/// that is not finite in float, all its values decode to NaN.
at::Tensor encode_e3m0(const at::Tensor& values);

/// Adds the decoded values to `sum`, a flat float tensor on the CPU.
void add_e3m0(const at::Tensor& encoded, at::Tensor& sum);

}  // namespace trireme
