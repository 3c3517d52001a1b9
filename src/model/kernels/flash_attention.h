// Attention without its matrix of scores in memory (Dao, "FlashAttention-2", 2023), where libtorch has it: on a GPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>

namespace trireme {

/// True if flash_attention can compute these queries and keys [n, heads, positions, features]: bfloat16 or float16 on a
/// GPU whose kernels libtorch has, at most 256 features per head, contiguous in their last dim, and a libtorch from 2.1
/// on.
bool can_use_flash_attention(const at::Tensor& queries, const at::Tensor& keys);

struct FlashAttention {
  at::Tensor output;      ///< [n, heads, positions, features]
  at::Tensor logarithms;  ///< float32 [n, heads, positions]: of the softmax's divisor, for the backward
};

/// Query i sees the keys up to i if `causal`, else all. The last dim of each tensor must be contiguous.
FlashAttention flash_attention(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values, bool causal,
                               double scale);

/// Returns the gradients of queries, keys and values.
std::array<at::Tensor, 3> flash_attention_backward(const at::Tensor& output_gradient, const at::Tensor& queries,
                                                   const at::Tensor& keys, const at::Tensor& values,
                                                   const FlashAttention& forward, bool causal, double scale);

}  // namespace trireme
