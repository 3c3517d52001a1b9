#include "update/e3m0.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "trireme/error.h"

namespace trireme {
namespace {

constexpr int kCodes = 8;  // 0, and 7 powers of two
constexpr uint8_t kSignBit = 8;
constexpr int64_t kScaleBytes = sizeof(float);

/// Magnitude of a code, relative to the scale: 0, 2^-6, ..., 1.
float magnitude(int code) { return code == 0 ? 0 : std::ldexp(1.0f, code - (kCodes - 1)); }

/// `ratio`: magnitude / scale, from 0 to 1.
uint8_t code_of(float ratio) {
  uint8_t code = 0;
  // rounds to nearest; half way rounds up
  while (code + 1 < kCodes && ratio >= (magnitude(code) + magnitude(code + 1)) / 2) ++code;
  return code;
}

void encode_block(const float* values, int64_t n, uint8_t* out) {
  float scale = 0;
  bool finite = true;
  for (int64_t i = 0; i < n; ++i) {
    scale = std::max(scale, std::abs(values[i]));
    finite &= std::isfinite(values[i]);
  }
  if (!finite) scale = NAN;
  std::memcpy(out, &scale, kScaleBytes);
  uint8_t* codes = out + kScaleBytes;
  std::memset(codes, 0, size_t((n + 1) / 2));
  if (!(scale > 0)) return;
  for (int64_t i = 0; i < n; ++i) {
    const uint8_t code = code_of(std::abs(values[i]) / scale) | (values[i] < 0 ? kSignBit : 0);
    codes[i / 2] |= uint8_t(i % 2 ? code << 4 : code);
  }
}

}  // namespace

int64_t e3m0_bytes(int64_t values) {
  const int64_t whole = values / kE3m0Block, rest = values % kE3m0Block;
  return whole * (kScaleBytes + kE3m0Block / 2) + (rest > 0 ? kScaleBytes + (rest + 1) / 2 : 0);
}

at::Tensor encode_e3m0(const at::Tensor& values) {
  const at::Tensor source = values.to(at::kCPU, at::kFloat).contiguous();
  at::Tensor encoded = at::empty({e3m0_bytes(source.numel())}, at::kByte);
  uint8_t* out = encoded.data_ptr<uint8_t>();
  for (int64_t at = 0; at < source.numel(); at += kE3m0Block) {
    const int64_t n = std::min(kE3m0Block, source.numel() - at);
    encode_block(source.data_ptr<float>() + at, n, out);
    out += e3m0_bytes(n);
  }
  return encoded;
}

void add_e3m0(const at::Tensor& encoded, at::Tensor& sum) {
  check_internal(encoded.numel() == e3m0_bytes(sum.numel()) && sum.is_contiguous(),
                 "encoded values are as many as there is room for");
  const uint8_t* in = encoded.data_ptr<uint8_t>();
  float* to = sum.data_ptr<float>();
  for (int64_t at = 0; at < sum.numel(); at += kE3m0Block) {
    const int64_t n = std::min(kE3m0Block, sum.numel() - at);
    float scale;
    std::memcpy(&scale, in, kScaleBytes);
    float decoded[2 * kCodes];
    for (int code = 0; code < kCodes; ++code) {
      decoded[code] = scale * magnitude(code);
      decoded[code | kSignBit] = -decoded[code];
    }
    const uint8_t* codes = in + kScaleBytes;
    for (int64_t i = 0; i < n; ++i) to[at + i] += decoded[i % 2 ? codes[i / 2] >> 4 : codes[i / 2] & 15];
    in += e3m0_bytes(n);
  }
}

}  // namespace trireme
