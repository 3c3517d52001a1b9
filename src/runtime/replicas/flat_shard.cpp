#include "runtime/replicas/flat_shard.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace trireme {

at::Tensor part_of(at::Tensor tensor, const Box& box) {
  for (size_t d = 0; d < box.size(); ++d) tensor = tensor.narrow(int64_t(d), box[d].begin, box[d].size());
  return tensor;
}

at::Tensor view_of_shard(const at::Tensor& flat, const ParameterShard& shard) {
  Shape shape = shape_of(shard.box);
  if (shape.size() != 4) return flat.narrow(0, shard.offset, shard.size()).view(shape);
  const int64_t c = shape[1], h = shape[2], w = shape[3];
  return flat.as_strided(shape, {c * h * w, 1, w * c, c}, flat.storage_offset() + shard.offset);
}

at::Tensor flat_shard(const at::Tensor& full, ParameterShard shard) {
  shard.offset = 0;
  at::Tensor flat = at::empty({shard.size()}, full.options());
  view_of_shard(flat, shard).copy_(part_of(full, shard.box));
  return flat;
}

void copy_overlap(const at::Tensor& from, int64_t offset, const Range& range, const at::Tensor& to) {
  const int64_t begin = std::max(offset, range.begin), end = std::min(offset + from.numel(), range.end);
  if (to.defined() && begin < end)
    to.narrow(0, begin - range.begin, end - begin).copy_(from.narrow(0, begin - offset, end - begin));
}

}  // namespace trireme
