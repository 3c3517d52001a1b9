#include "update/codec.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include "base/text_parts.h"
#include "update/e3m0.h"
#include "update/padding.h"

namespace trireme {
namespace {

constexpr const char* kKey = "compression";
constexpr std::string_view kShareOf = "topk:";
constexpr int64_t kSignBlock = 1024;  // elements with one scale
constexpr int64_t kSignScaleBytes = sizeof(float);
constexpr int64_t kBits = 8;

int64_t sent_by_topk(const Codec& codec, int64_t elements) {
  const auto wanted = int64_t(std::llround(codec.share * double(elements)));
  return std::clamp(wanted, std::min<int64_t>(1, elements), elements);
}

/// Type of an element's number.
at::ScalarType index_type(int64_t elements) {
  return elements > std::numeric_limits<int32_t>::max() ? at::kLong : at::kInt;
}

at::Tensor bytes_of(const at::Tensor& values) {
  return values.numel() > 0 ? values.contiguous().view(at::kByte) : at::empty({0}, at::kByte);
}

at::Tensor encode_topk(const Codec& codec, const at::Tensor& values) {
  const int64_t sent = sent_by_topk(codec, values.numel());
  const at::Tensor indices = std::get<1>(values.abs().topk(sent, 0, /*largest=*/true, /*sorted=*/false));
  return at::cat({bytes_of(indices.to(at::kCPU, index_type(values.numel()))),
                  bytes_of(values.index_select(0, indices).to(at::kCPU))});
}

bool add_topk(const Codec& codec, const at::Tensor& encoded, at::Tensor& sum, double factor) {
  const int64_t sent = sent_by_topk(codec, sum.numel());
  if (sent == 0) return true;
  const at::ScalarType type = index_type(sum.numel());
  const int64_t index_bytes = sent * int64_t(c10::elementSize(type));
  // as copies, because the bytes of the values need not begin where their type may
  const at::Tensor indices = encoded.narrow(0, 0, index_bytes).clone().view(type).to(at::kLong);
  const at::Tensor values =
      encoded.narrow(0, index_bytes, encoded.numel() - index_bytes).clone().view(sum.scalar_type());
  if (indices.min().item<int64_t>() < 0 || indices.max().item<int64_t>() >= sum.numel()) return false;
  sum.index_add_(0, indices.to(sum.device()), values.to(sum.device()), factor);
  return true;
}

int64_t sign_bytes(int64_t elements) {
  const int64_t blocks = (elements + kSignBlock - 1) / kSignBlock;
  return blocks * kSignScaleBytes + (elements + kBits - 1) / kBits;
}

/// Returns how many of the elements from `begin` to `end` are padding. Drops the ranges that end there, so that calls
/// for one stretch after another take time in proportion to the ranges.
int64_t take_padding(std::span<const Range>& padding, int64_t begin, int64_t end) {
  int64_t count = 0;
  while (!padding.empty() && padding.front().begin < end) {
    count += std::min(padding.front().end, end) - std::max(padding.front().begin, begin);
    if (padding.front().end > end) break;
    padding = padding.subspan(1);
  }
  return count;
}

/// A bit cannot say that a value is 0. So padding, which is always 0, is left out on both sides; otherwise it would get
/// the block's scale.
at::Tensor encode_sign(const at::Tensor& values, std::span<const Range> padding) {
  const at::Tensor source = values.to(at::kCPU, at::kFloat).contiguous();
  at::Tensor encoded = at::zeros({sign_bytes(source.numel())}, at::kByte);
  const float* in = source.data_ptr<float>();
  uint8_t* out = encoded.data_ptr<uint8_t>();
  for (int64_t at = 0; at < source.numel(); at += kSignBlock) {
    const int64_t n = std::min(kSignBlock, source.numel() - at);
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += std::abs(in[at + i]);
    const int64_t real = n - take_padding(padding, at, at + n);
    const auto scale = float(sum / double(std::max<int64_t>(real, 1)));
    std::memcpy(out, &scale, kSignScaleBytes);
    out += kSignScaleBytes;
    for (int64_t i = 0; i < n; ++i)
      if (in[at + i] < 0) out[i / kBits] |= uint8_t(1 << (i % kBits));
    out += (n + kBits - 1) / kBits;
  }
  return encoded;
}

void add_sign(const at::Tensor& encoded, at::Tensor& sum, double factor, std::span<const Range> padding) {
  at::Tensor decoded = at::empty({sum.numel()}, at::kFloat);
  const uint8_t* in = encoded.data_ptr<uint8_t>();
  float* to = decoded.data_ptr<float>();
  for (int64_t at = 0; at < sum.numel(); at += kSignBlock) {
    const int64_t n = std::min(kSignBlock, sum.numel() - at);
    float scale;
    std::memcpy(&scale, in, kSignScaleBytes);
    in += kSignScaleBytes;
    for (int64_t i = 0; i < n; ++i) to[at + i] = (in[i / kBits] >> (i % kBits) & 1) != 0 ? -scale : scale;
    in += (n + kBits - 1) / kBits;
  }
  clear_padding(decoded, padding);
  sum.add_(decoded.to(sum.options()), factor);
}

void add_e3m0_times(const at::Tensor& encoded, at::Tensor& sum, double factor, std::span<const Range> padding) {
  at::Tensor decoded = at::zeros({sum.numel()}, at::kFloat);
  add_e3m0(encoded, decoded);
  clear_padding(decoded, padding);  // a scale that is not finite makes all values of its block NaN
  sum.add_(decoded.to(sum.options()), factor);
}

void add_bf16(const at::Tensor& encoded, at::Tensor& sum, double factor) {
  if (sum.numel() == 0) return;
  sum.add_(encoded.contiguous().view(at::kBFloat16).to(sum.options()), factor);
}

}  // namespace

std::optional<Codec> read_compression(const ConfigTable& update) {
  using Kind = Codec::Kind;
  const std::string text = update.get_string(kKey, "none");
  if (text == "none") return std::nullopt;
  if (text == "topk") return Codec{};
  if (text == "sign") return Codec{.kind = Kind::sign};
  if (text == "e3m0") return Codec{.kind = Kind::e3m0};
  if (text == "bf16") return Codec{.kind = Kind::bf16};
  if (!text.starts_with(kShareOf))
    update.fail(kKey, "it is no code that policies know",
                "choose \"none\", \"topk:0.01\", \"sign\", \"e3m0\" or \"bf16\"");
  const std::optional<double> share = number_in<double>(std::string_view(text).substr(kShareOf.size()));
  if (!share || !(*share > 0 && *share <= 1))
    update.fail(kKey, "after \"topk:\" stands the share of the elements that is sent, above 0 and at most 1",
                "write \"topk:0.01\"");
  return Codec{.kind = Kind::topk, .share = *share};
}

void refuse_compression(const ConfigTable& update, const char* why, const char* next) {
  if (read_compression(update)) update.fail(kKey, why, next);
}

std::string text_of(const std::optional<Codec>& codec) {
  if (!codec) return "";
  switch (codec->kind) {
    case Codec::Kind::topk: return fmt::format(",compression=topk:{}", codec->share);
    case Codec::Kind::sign: return ",compression=sign";
    case Codec::Kind::e3m0: return ",compression=e3m0";
    case Codec::Kind::bf16: break;
  }
  return ",compression=bf16";
}

int64_t encoded_bytes(const Codec& codec, int64_t elements, at::ScalarType dtype) {
  switch (codec.kind) {
    case Codec::Kind::topk:
      return sent_by_topk(codec, elements) * int64_t(c10::elementSize(index_type(elements)) + c10::elementSize(dtype));
    case Codec::Kind::sign: return sign_bytes(elements);
    case Codec::Kind::e3m0: return e3m0_bytes(elements);
    case Codec::Kind::bf16: break;
  }
  return elements * int64_t(c10::elementSize(at::kBFloat16));
}

at::Tensor encode(const Codec& codec, const at::Tensor& values, std::span<const Range> padding) {
  switch (codec.kind) {
    case Codec::Kind::topk: return encode_topk(codec, values);
    case Codec::Kind::sign: return encode_sign(values, padding);
    case Codec::Kind::e3m0: return encode_e3m0(values);
    case Codec::Kind::bf16: break;
  }
  return bytes_of(values.to(at::kCPU, at::kBFloat16));
}

bool add_decoded(const Codec& codec, const at::Tensor& encoded, at::Tensor& sum, double factor,
                 std::span<const Range> padding) {
  if (encoded.scalar_type() != at::kByte || encoded.dim() != 1 ||
      encoded.numel() != encoded_bytes(codec, sum.numel(), sum.scalar_type()))
    return false;
  switch (codec.kind) {
    case Codec::Kind::topk: return add_topk(codec, encoded, sum, factor);
    case Codec::Kind::sign: add_sign(encoded, sum, factor, padding); break;
    case Codec::Kind::e3m0: add_e3m0_times(encoded, sum, factor, padding); break;
    case Codec::Kind::bf16: add_bf16(encoded, sum, factor); break;
  }
  return true;
}

}  // namespace trireme
