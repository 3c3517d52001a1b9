// The number formats in which a run computes and stores its weights.
#pragma once

#include <c10/core/ScalarType.h>

#include <string_view>

namespace trireme {

/// fp32: everything in float32. bf16: layers compute in bfloat16; weights, optimizer state, norms, targets and losses
/// are float32. fp64: everything in float64, for verification.
enum class Precision { fp32, bf16, fp64 };

const char* name_of(Precision precision);
/// Errors (user): names the accepted words.
Precision parse_precision(std::string_view text, std::string_view key);

c10::ScalarType compute_type(Precision precision);
c10::ScalarType master_type(Precision precision);

}  // namespace trireme
