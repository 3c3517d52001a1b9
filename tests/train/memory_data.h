// A tiny classification task in memory: the first two inputs decide the class. It can be slow or fail, if a test asks.
#pragma once

#include <ATen/ATen.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/random.h"
#include "trireme/dataset.h"

namespace trireme::test_support {

class MemoryDataset final : public Dataset {
 public:
  MemoryDataset(int64_t size, uint64_t seed, Shape shape = {4}) : size_(size), seed_(seed), shape_(std::move(shape)) {}

  int64_t size() const override { return size_; }
  Shape sample_shape() const override { return shape_; }
  int64_t classes() const override { return 4; }

  Samples get(std::span<const int64_t> indices, const Draw&) const override {
    if (const auto before = pause.load(); before.count() > 0) std::this_thread::sleep_for(before);
    if (++gets > fail_after) throw std::runtime_error("disk on fire");
    const auto n = int64_t(indices.size());
    const int64_t each = element_count(shape_);
    Samples samples{at::empty({n, each}), at::empty({n}, at::kLong)};
    Philox random(random_key(seed_, "memory"));
    for (int64_t i = 0; i < n; ++i) {
      float* x = samples.data.data_ptr<float>() + each * i;
      for (int64_t k = 0; k < each; ++k) x[k] = float(random.normal(uint64_t(indices[size_t(i)] * each + k)));
      samples.target.data_ptr<int64_t>()[i] = (x[0] > 0) + 2 * (x[1] > 0);
    }
    Shape shape = shape_;
    shape.insert(shape.begin(), n);
    samples.data = samples.data.view(shape);
    return samples;
  }

  std::atomic<std::chrono::milliseconds> pause{std::chrono::milliseconds(0)};
  int64_t fail_after = INT64_MAX;
  mutable std::atomic<int64_t> gets{0};

 private:
  int64_t size_;
  uint64_t seed_;
  Shape shape_;
};

}  // namespace trireme::test_support
