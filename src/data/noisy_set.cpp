#include "data/noisy_set.h"

#include <ATen/ATen.h>

#include <utility>

#include "base/random.h"
#include "trireme/error.h"

namespace trireme {
namespace {

[[noreturn]] void refuse_noise_on_tokens(const std::string& where) {
  fail_user({where, "shares = \"features\"",
             "noise is added to real numbers, and these inputs are whole numbers, such as token ids",
             "use images, tables or tensors of real numbers, or other shares"});
}

}  // namespace

NoisySet::NoisySet(std::shared_ptr<const Dataset> set, std::vector<double> deviations, uint64_t key, std::string where)
    : set_(std::move(set)), deviations_(std::move(deviations)), key_(key), where_(std::move(where)) {
  check_internal(deviations_.size() == 1 || int64_t(deviations_.size()) == set_->size(), "samples have a deviation");
  if (set_->vocabulary() > 0) refuse_noise_on_tokens(where_);
}

Samples NoisySet::get(std::span<const int64_t> indices, const Draw& draw) const {
  Samples samples = set_->get(indices, draw);
  if (!samples.data.is_floating_point()) refuse_noise_on_tokens(where_);
  const at::Tensor noise = at::empty(samples.data.sizes(), at::kFloat);
  const auto count = int64_t(indices.size());
  const int64_t values = count == 0 ? 0 : noise.numel() / count;
  const Philox random(key_);
  float* next = noise.data_ptr<float>();
  for (const int64_t index : indices) {
    const double deviation = deviations_.size() == 1 ? deviations_.front() : deviations_[size_t(index)];
    for (int64_t k = 0; k < values; ++k) *next++ = float(deviation * random.normal(uint64_t(k), uint64_t(index)));
  }
  samples.data = samples.data.clone().add_(noise);  // the set's tensors may be its own memory
  return samples;
}

}  // namespace trireme
