#include "update/padding.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace trireme {

Padding padding_in(const ReplicaState& state, size_t bucket, int64_t offset, int64_t elements) {
  Padding padding;
  for (const WeightPadding& run : state.padding) {
    if (run.bucket != bucket) continue;
    const int64_t begin = std::max(run.offset, offset), end = std::min(run.offset + run.elements, offset + elements);
    if (begin < end) padding.push_back({begin - offset, end - offset});
  }
  return padding;
}

std::vector<Padding> padding_by_bucket(const ReplicaState& state) {
  std::vector<Padding> padding(state.weights.size());
  for (const WeightPadding& run : state.padding) padding[run.bucket].push_back({run.offset, run.offset + run.elements});
  return padding;
}

void clear_padding(const at::Tensor& tensor, std::span<const Range> padding) {
  for (const Range& range : padding) tensor.narrow(0, range.begin, range.size()).zero_();
}

}  // namespace trireme
