// Values in 4 bits: a sign and 3 bits of exponent, no mantissa (E3M0), with a float32 scale for every 1024 values.
//
// The format of the outer gradients in Douillard et al., "Streaming DiLoCo with overlapping communication", 2025. The
// paper leaves the scale open: here it is the block's largest magnitude. A value is 0 or plus or minus scale 2^-k, k =
// 0 .. 6, the nearest one; of two equally near the larger magnitude.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace trireme {

/// Values to a scale.
constexpr int64_t kE3m0Block = 1024;

/// Bytes of that many values: half a byte each and 4 bytes per block.
int64_t e3m0_bytes(int64_t values);

/// `values`: flat float or double, finite in float. Returns uint8 [e3m0_bytes]. Of a block with a value that is not
/// finite every value decodes to NaN.
at::Tensor encode_e3m0(const at::Tensor& values);

/// Adds the decoded values to `sum`, flat float.
void add_e3m0(const at::Tensor& encoded, at::Tensor& sum);

}  // namespace trireme
