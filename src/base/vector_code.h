// For inner loops that the compiler vectorises: several instruction sets in one program, and bfloat16 as bits.
#pragma once

#include <bit>
#include <cstdint>

// Compiles a (non-template) function for several instruction sets. The right one is chosen when the program starts.
// Sanitizers do not support this choice, so they get the plain version.
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TRIREME_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TRIREME_CLONES
#endif

// A function must be inlined into a clone to be compiled for the clone's instruction set.
#define TRIREME_INLINE inline __attribute__((always_inline))

namespace trireme {

/// Returns the float whose upper half is `bits`.
TRIREME_INLINE float float_of_bfloat16(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

/// Rounds to nearest, ties to even. NaN remains NaN.
TRIREME_INLINE uint16_t bfloat16_of_float(float value) {
  const auto word = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (word + 0x7FFF + ((word >> 16) & 1)) >> 16;
  return uint16_t((word & 0x7FFFFFFF) > 0x7F800000 ? 0x7FC0 : rounded);
}

}  // namespace trireme
