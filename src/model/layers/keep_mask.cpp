#include "model/layers/keep_mask.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "base/random.h"

namespace trireme {
namespace {

constexpr int64_t kWords = 4;                           // of one counter
constexpr int64_t kCountersAtATime = int64_t{1} << 20;  // bounds the memory of the words

uint64_t mask_key(const LayerCall& call, const Layer& layer) {
  return random_key(call.seed, layer.name() + ":dropout");
}

/// An element is kept if its word is at least this.
uint64_t least_kept(double drop) { return uint64_t(std::llround(drop * 4294967296.0)); }

/// Where the elements of a worker's part lie in all samples of the batch, in the order of memory. Philox draws four
/// consecutive elements from one counter.
struct PartWalk {
  int64_t first = 0;  ///< index of the part's first element
  int64_t run = 1;    ///< elements that are consecutive in the whole too
  /// The dims outside a run, slowest first: number of steps, and distance of each.
  std::vector<std::pair<int64_t, int64_t>> steps;

  int64_t runs() const {
    int64_t product = 1;
    for (const auto& [count, distance] : steps) product *= count;
    return product;
  }
  /// True if every run begins at the same word of a counter.
  bool is_aligned() const {
    return std::all_of(steps.begin(), steps.end(), [](const auto& step) { return step.second % kWords == 0; });
  }
};

PartWalk walk_of(const LayerCall& call, int64_t samples, const SamplePart& part) {
  PartWalk walk;
  int64_t distance = 1;
  bool whole = true;  // true while every faster dim is whole, so the run goes on
  auto add_dim = [&](int64_t count, int64_t offset, int64_t extent) {
    walk.first += offset * distance;
    if (whole) walk.run *= count;
    else walk.steps.insert(walk.steps.begin(), {count, distance});
    whole = whole && count == extent;
    distance *= extent;
  };
  for (size_t d = part.local.size(); d-- > 0;) add_dim(part.local[d], part.offset[d], part.full[d]);
  add_dim(samples, call.first_sample, samples);
  return walk;
}

/// Returns the index of the first element of each run [runs].
at::Tensor first_elements(const PartWalk& walk, const at::TensorOptions& integers) {
  if (walk.steps.empty()) return at::full({1}, walk.first, integers);
  at::Tensor first = at::full({1}, walk.first, integers);
  for (const auto& [count, distance] : walk.steps)
    first = at::add(first.unsqueeze(1), at::arange(count, integers).mul_(distance)).flatten();
  return first;
}

/// The four words of Philox for each counter, as integers below 2^32. Products wrap around at 2^64, which leaves their
/// bits right; a shift copies the sign, which the mask removes.
std::array<at::Tensor, 4> philox_words(const at::Tensor& counters, uint64_t stream, uint64_t key) {
  constexpr int64_t kWord = 0xFFFFFFFF;
  std::array<at::Tensor, 4> x{at::bitwise_and(counters, kWord), at::bitwise_right_shift(counters, 32),
                              at::full_like(counters, int64_t(stream & kWord)),
                              at::full_like(counters, int64_t(stream >> 32))};
  auto k0 = uint32_t(key), k1 = uint32_t(key >> 32);
  auto mixed = [&](const at::Tensor& product, const at::Tensor& with, uint32_t round_key) {
    return at::bitwise_right_shift(product, 32).bitwise_xor_(with).bitwise_xor_(int64_t(round_key)).bitwise_and_(kWord);
  };
  for (int round = 0; round < Philox::kRounds; ++round) {
    // the lower halves are only masked in the end: until then they are mixed, and the mixture is masked
    const at::Tensor p0 = at::mul(x[0], int64_t(Philox::kMultiplier0)),
                     p1 = at::mul(x[2], int64_t(Philox::kMultiplier1));
    x = {mixed(p1, x[1], k0), p1, mixed(p0, x[3], k1), p0};
    k0 += Philox::kWeyl0;
    k1 += Philox::kWeyl1;
  }
  x[1] = at::bitwise_and(x[1], kWord);
  x[3] = at::bitwise_and(x[3], kWord);
  return x;
}

/// Returns for each counter, for each of its words, whether it is at least `least` [counters, 4].
at::Tensor kept_words(const at::Tensor& counters, uint64_t stream, uint64_t key, uint64_t least) {
  const int64_t n = counters.numel();
  at::Tensor kept = at::empty({n, kWords}, counters.options().dtype(at::kBool));
  for (int64_t begin = 0; begin < n; begin += kCountersAtATime) {
    const int64_t count = std::min(kCountersAtATime, n - begin);
    std::vector<at::Tensor> part;
    for (const at::Tensor& words : philox_words(counters.narrow(0, begin, count), stream, key))
      part.push_back(words.ge(int64_t(least)));
    at::Tensor to = kept.narrow(0, begin, count);
    at::stack_out(to, part, 1);
  }
  return kept;
}

}  // namespace

at::Tensor draw_keep_mask(const LayerCall& call, const Layer& layer, double drop, int64_t samples,
                          const SamplePart& part, c10::Device device) {
  if (!device.is_cpu()) return draw_keep_mask_by_operators(call, layer, drop, samples, part, device);
  Shape sizes = part.local;
  sizes.insert(sizes.begin(), samples);
  at::Tensor mask = at::empty(sizes, at::TensorOptions().dtype(at::kByte));
  uint8_t* kept = mask.data_ptr<uint8_t>();
  const size_t dims = part.local.size();
  // a run: the elements along the last dim, which are consecutive in the whole sample too
  int64_t runs = 1;
  for (size_t d = 0; d + 1 < dims; ++d) runs *= part.local[d];
  const int64_t run = dims > 0 ? part.local[dims - 1] : 1, sample_elements = element_count(part.full);

  const Philox random(mask_key(call, layer));
  const uint64_t drop_below = least_kept(drop);
  std::array<uint32_t, 4> words{};
  uint64_t drawn = ~uint64_t{0};  // index of the counter from which `words` were drawn
  for (int64_t sample = 0; sample < samples; ++sample)
    for (int64_t r = 0; r < runs; ++r) {
      int64_t first = dims > 0 ? part.offset[dims - 1] : 0, rest = r, stride = dims > 0 ? part.full[dims - 1] : 1;
      for (size_t d = dims; d-- > 1;) {
        first += (part.offset[d - 1] + rest % part.local[d - 1]) * stride;
        rest /= part.local[d - 1];
        stride *= part.full[d - 1];
      }
      uint64_t index = uint64_t(call.first_sample + sample) * uint64_t(sample_elements) + uint64_t(first);
      for (int64_t i = 0; i < run; ++i, ++index) {
        if (index / 4 != drawn) words = random(drawn = index / 4, uint64_t(call.step));
        *kept++ = words[index % 4] >= drop_below;
      }
    }
  return mask;
}

at::Tensor draw_keep_mask_by_operators(const LayerCall& call, const Layer& layer, double drop, int64_t samples,
                                       const SamplePart& part, c10::Device device) {
  Shape sizes = part.local;
  sizes.insert(sizes.begin(), samples);
  if (element_count(sizes) == 0) return at::empty(sizes, at::TensorOptions().dtype(at::kByte).device(device));
  const PartWalk walk = walk_of(call, samples, part);
  const at::TensorOptions integers = at::TensorOptions().dtype(at::kLong).device(device);
  const at::Tensor first = first_elements(walk, integers);
  // enough counters for a run that begins at the last word of its first one
  const int64_t aligned_shift = walk.first % kWords, shift = walk.is_aligned() ? aligned_shift : kWords - 1;
  const int64_t counters = (shift + walk.run + kWords - 1) / kWords;
  const at::Tensor counter = at::add(at::bitwise_right_shift(first, 2).unsqueeze(1), at::arange(counters, integers));
  at::Tensor kept = kept_words(counter.flatten(), uint64_t(call.step), mask_key(call, layer), least_kept(drop))
                        .view({walk.runs(), counters * kWords});
  if (walk.is_aligned()) kept = kept.narrow(1, aligned_shift, walk.run);
  else kept = kept.gather(1, at::add(at::bitwise_and(first, kWords - 1).unsqueeze(1), at::arange(walk.run, integers)));
  return kept.contiguous().view(sizes).view(at::kByte);
}

}  // namespace trireme
