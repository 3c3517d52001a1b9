#include "runtime/precision.h"

#include <fmt/format.h>

#include "trireme/error.h"

namespace trireme {

const char* name_of(Precision precision) {
  switch (precision) {
    case Precision::fp32: return "fp32";
    case Precision::bf16: return "bf16";
    case Precision::fp64: return "fp64";
  }
  return "?";
}

Precision parse_precision(std::string_view text, std::string_view key) {
  for (Precision p : {Precision::fp32, Precision::bf16, Precision::fp64})
    if (text == name_of(p)) return p;
  fail_user({std::string(key), fmt::format("\"{}\"", text), "is not a precision", "use fp32, bf16 or fp64"});
}

c10::ScalarType compute_type(Precision precision) {
  return precision == Precision::bf16   ? c10::ScalarType::BFloat16
         : precision == Precision::fp64 ? c10::ScalarType::Double
                                        : c10::ScalarType::Float;
}

c10::ScalarType master_type(Precision precision) {
  return precision == Precision::fp64 ? c10::ScalarType::Double : c10::ScalarType::Float;
}

}  // namespace trireme
