// Lossy codes for what replicas send.
//
// topk: the elements of the largest magnitudes (Aji, Heafield, "Sparse communication for distributed gradient descent",
// 2017). sign: one bit per element, and for each block of 1024 the mean magnitude (Karimireddy et al., "Error feedback
// fixes SignSGD and other gradient compression schemes", 2019; in blocks: Zheng, Huang, Kwok, "Communication-efficient
// distributed blockwise momentum SGD with error-feedback", 2019). e3m0: e3m0.h. bf16: rounds to bfloat16.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "trireme/config.h"
#include "trireme/placement.h"

namespace trireme {

struct Codec {
  enum class Kind { topk, sign, e3m0, bf16 } kind = Kind::topk;
  double share = 0.01;  ///< topk: share of the elements that is sent, above 0, at most 1; at least one is sent
};

/// Reads the option "compression": "topk:0.01", "topk" (a share of 0.01), "sign", "e3m0" or "bf16". nullopt: it is
/// absent or "none". Errors (user): as ConfigTable's.
std::optional<Codec> read_compression(const ConfigTable& update);

/// For policies that cannot use codes. Errors (user): the option "compression" is given and is not "none". `why`: the
/// reason; `next`: what the user can do.
void refuse_compression(const ConfigTable& update, const char* why, const char* next);

/// Returns ",compression=topk:0.01"; "" for nullopt, so that the text of runs without it stays the same.
std::string text_of(const std::optional<Codec>& codec);

/// Returns the size in bytes of `elements` encoded values of the type.
int64_t encoded_bytes(const Codec& codec, int64_t elements, at::ScalarType dtype);

/// `values`: flat, float or double, of any device. Returns uint8 [encoded_bytes] on the CPU. If a value is not finite,
/// it and (depending on the code) the other values of its block decode to NaN or infinity.
///
/// `padding`: the elements that are no values (update/padding.h). They are 0 and decode to 0; a scale does not count
/// them. Sender and receiver must give the same padding.
at::Tensor encode(const Codec& codec, const at::Tensor& values, std::span<const Range> padding = {});

/// Adds `factor` times the decoded values to `sum`, flat and contiguous, of the dtype that was encoded, on any device.
/// Returns false and changes nothing if `encoded` cannot be the code of so many values: it may come from another
/// party's program.
bool add_decoded(const Codec& codec, const at::Tensor& encoded, at::Tensor& sum, double factor = 1,
                 std::span<const Range> padding = {});

}  // namespace trireme
