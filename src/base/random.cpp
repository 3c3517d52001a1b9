#include "base/random.h"

#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

namespace trireme {
namespace {

constexpr double kTwoToMinus32 = 1.0 / 4294967296.0;

}  // namespace

std::array<uint32_t, 4> Philox::operator()(uint64_t low, uint64_t high) const {
  std::array<uint32_t, 4> x{uint32_t(low), uint32_t(low >> 32), uint32_t(high), uint32_t(high >> 32)};
  uint32_t k0 = uint32_t(key_), k1 = uint32_t(key_ >> 32);
  for (int round = 0; round < kRounds; ++round) {
    uint64_t p0 = uint64_t(kMultiplier0) * x[0], p1 = uint64_t(kMultiplier1) * x[2];
    x = {uint32_t(p1 >> 32) ^ x[1] ^ k0, uint32_t(p1), uint32_t(p0 >> 32) ^ x[3] ^ k1, uint32_t(p0)};
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return x;
}

double Philox::uniform(uint64_t index, uint64_t stream) const {
  return (*this)(index / 4, stream)[index % 4] * kTwoToMinus32;
}

double Philox::normal(uint64_t index, uint64_t stream) const {
  auto words = (*this)(index, stream);
  double u = (words[0] + 0.5) * kTwoToMinus32, v = words[1] * kTwoToMinus32;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

uint64_t random_key(uint64_t seed, std::string_view purpose) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (char c : purpose) hash = (hash ^ uint8_t(c)) * 0x100000001b3ull;
  // splitmix64 finaliser: neighbouring seeds give unrelated keys
  uint64_t z = hash + seed * 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

std::vector<int64_t> random_permutation(int64_t n, uint64_t key) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  Philox random(key);
  for (int64_t i = n - 1; i > 0; --i) {
    auto words = random(uint64_t(i));
    uint64_t word = (uint64_t(words[0]) << 32) | words[1];
    // multiply-shift instead of modulo: the bias is below 2^-64 * n
    auto j = int64_t((static_cast<unsigned __int128>(word) * uint64_t(i + 1)) >> 64);
    std::swap(order[size_t(i)], order[size_t(j)]);
  }
  return order;
}

}  // namespace trireme
