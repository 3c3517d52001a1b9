#include "model/kernels/flash_attention.h"

#include <ATen/ATen.h>
#include <torch/version.h>

#include "trireme/error.h"

namespace trireme {

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 1)

namespace {

/// True if this libtorch has the kernels and this GPU can run them (compute capability 8.0 or more). Found by a trial
/// run.
bool runs_here() {
  static const bool runs = [] {
    try {
      constexpr int64_t kSome = 16;
      const at::Tensor some =
          at::zeros({1, 1, kSome, kSome}, at::TensorOptions().dtype(at::kBFloat16).device(at::kCUDA));
      at::_scaled_dot_product_flash_attention(some, some, some, 0, false, false, 1.0);
      return true;
    } catch (const c10::Error&) {
      return false;
    }
  }();
  return runs;
}

}  // namespace

bool can_use_flash_attention(const at::Tensor& queries, const at::Tensor& keys) {
  constexpr int64_t kMostFeatures = 256, kWholeFeatures = 8;  // of a head, in the kernels that libtorch brings
  const bool is_narrow = queries.scalar_type() == at::kBFloat16 || queries.scalar_type() == at::kHalf;
  return queries.is_cuda() && is_narrow && queries.size(3) <= kMostFeatures && queries.size(3) % kWholeFeatures == 0 &&
         queries.stride(3) == 1 && keys.stride(3) == 1 && queries.numel() > 0 && keys.numel() > 0 && runs_here();
}

FlashAttention flash_attention(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values, bool causal,
                               double scale) {
  auto result = at::_scaled_dot_product_flash_attention(queries, keys, values, /*dropout_p=*/0, causal,
                                                        /*return_debug_mask=*/false, scale);
  return {std::get<0>(result), std::get<1>(result)};
}

std::array<at::Tensor, 3> flash_attention_backward(const at::Tensor& output_gradient, const at::Tensor& queries,
                                                   const at::Tensor& keys, const at::Tensor& values,
                                                   const FlashAttention& forward, bool causal, double scale) {
  // The undefined arguments {} are tables of sequence lengths, which sequences of one length do not have. Without
  // dropout no random numbers were drawn, but the operator requires tensors for their state.
  const at::Tensor state = at::empty({2}, queries.options().dtype(at::kLong)), unused = at::empty({0}, state.options());
  auto [q, k, v] = at::_scaled_dot_product_flash_attention_backward(
      output_gradient, queries, keys, values, forward.output, forward.logarithms, {}, {}, queries.size(2), keys.size(2),
      /*dropout_p=*/0, causal, state, unused, scale);
  return {q, k, v};
}

#else

bool can_use_flash_attention(const at::Tensor&, const at::Tensor&) { return false; }

FlashAttention flash_attention(const at::Tensor&, const at::Tensor&, const at::Tensor&, bool, double) {
  check_internal(false, "this libtorch has no flash attention");
  return {};
}

std::array<at::Tensor, 3> flash_attention_backward(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                                   const at::Tensor&, const FlashAttention&, bool, double) {
  check_internal(false, "this libtorch has no flash attention");
  return {};
}

#endif

}  // namespace trireme
