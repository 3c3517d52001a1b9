#include "profile/noise.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "base/random.h"

namespace trireme {
namespace {

constexpr int64_t kTile = 1 << 14;  // values; leaves most of the second-level cache to what was filled
constexpr uint64_t kKey = 7;

const at::Tensor& tile_of(c10::ScalarType type) {
  static const at::Tensor numbers = [] {
    at::Tensor drawn = at::empty({kTile}, at::kDouble);
    const Philox random(kKey);
    for (int64_t i = 0; i < kTile; ++i) drawn.data_ptr<double>()[i] = random.normal(uint64_t(i));
    return drawn;
  }();
  static const at::Tensor floats = numbers.to(at::kFloat), halves = numbers.to(at::kBFloat16);
  return type == at::kDouble ? numbers : type == at::kBFloat16 ? halves : floats;
}

at::Tensor integers(int64_t count, int64_t below, c10::ScalarType type) {
  const Philox random(kKey);
  at::Tensor drawn = at::empty({count}, at::kLong);
  for (int64_t i = 0; i < count; ++i)
    drawn.data_ptr<int64_t>()[i] = std::min(below - 1, int64_t(random.uniform(uint64_t(i)) * double(below)));
  return drawn.to(type);
}

}  // namespace

void fill_with_noise(at::Tensor& tensor, double deviation, int64_t below) {
  at::Tensor flat = tensor.as_strided({tensor.numel()}, {1});
  const at::Tensor tile = below > 0 ? integers(std::min(kTile, flat.numel()), below, flat.scalar_type()) : tile_of(flat.scalar_type());
  const int64_t item = tile.element_size();
  auto* to = static_cast<char*>(flat.data_ptr());
  for (int64_t at = 0; at < flat.numel(); at += kTile)
    std::memcpy(to + at * item, tile.data_ptr(), size_t(std::min(kTile, flat.numel() - at) * item));
  if (below == 0 && deviation != 1) flat.mul_(deviation);
}

}  // namespace trireme
