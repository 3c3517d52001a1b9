#include "model/layers/keep_mask.h"

#include <ATen/ATen.h>

#include <array>
#include <cmath>

#include "base/random.h"

namespace trireme {

at::Tensor draw_keep_mask(const LayerCall& call, const Layer& layer, double drop, int64_t samples,
                          const SamplePart& part) {
  Shape sizes = part.local;
  sizes.insert(sizes.begin(), samples);
  at::Tensor mask = at::empty(sizes, at::TensorOptions().dtype(at::kByte));
  uint8_t* kept = mask.data_ptr<uint8_t>();
  const size_t dims = part.local.size();
  // a run: the elements along the last dim, which are consecutive in the whole sample too
  int64_t runs = 1;
  for (size_t d = 0; d + 1 < dims; ++d) runs *= part.local[d];
  const int64_t run = dims > 0 ? part.local[dims - 1] : 1, sample_elements = element_count(part.full);

  const Philox random(random_key(call.seed, layer.name() + ":dropout"));
  const auto drop_below = uint64_t(std::llround(drop * 4294967296.0));
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

}  // namespace trireme
