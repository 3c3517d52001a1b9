// Counter-based random numbers: a value depends only on its key and counter, not on the rank or the time of the draw.
// Therefore initial weights, dropout masks and the order of samples are equal under every plan.
// Generator: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace trireme {

/// Stateless. Thread-safe.
class Philox {
 public:
  static constexpr int kRounds = 10;
  static constexpr uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  static constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;  ///< added to the key after each round

  explicit Philox(uint64_t key) : key_(key) {}

  /// Four independent 32-bit words for one 128-bit counter (high, low).
  std::array<uint32_t, 4> operator()(uint64_t low, uint64_t high = 0) const;

  /// Uniform in [0, 1): 32 bits of resolution, equal in float and double arithmetic up to rounding.
  double uniform(uint64_t index, uint64_t stream = 0) const;

  /// Standard normal by Box-Muller from one counter.
  double normal(uint64_t index, uint64_t stream = 0) const;

 private:
  uint64_t key_;
};

/// Returns the mixed 64-bit FNV-1a hash of `purpose` and the seed. Keys a generator by the seed and by what its numbers
/// are for.
uint64_t random_key(uint64_t seed, std::string_view purpose);

/// Returns a permutation of 0..n-1 that depends only on the key (Fisher-Yates over Philox words).
std::vector<int64_t> random_permutation(int64_t n, uint64_t key);

}  // namespace trireme
