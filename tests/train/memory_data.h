// A tiny classification task held in memory: two inputs decide the class. Can be slow, or fail, on purpose.
#pragma once

#include <ATen/ATen.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "base/random.h"
#include "data/dataset.h"

namespace trireme::testing {

class MemoryDataset final : public Dataset {
 public:
  MemoryDataset(int64_t size, uint64_t seed) : size_(size), seed_(seed) {}

  int64_t size() const override { return size_; }
  Shape sample_shape() const override { return {4}; }
  int64_t classes() const override { return 4; }

  Samples get(std::span<const int64_t> indices, const Draw&) const override {
    if (pause.count() > 0) std::this_thread::sleep_for(pause);
    if (++gets > fail_after) throw std::runtime_error("disk on fire");
    const auto n = int64_t(indices.size());
    Samples samples{at::empty({n, 4}), at::empty({n}, at::kLong)};
    Philox random(random_key(seed_, "memory"));
    for (int64_t i = 0; i < n; ++i) {
      float* x = samples.data.data_ptr<float>() + 4 * i;
      for (int k = 0; k < 4; ++k) x[k] = float(random.normal(uint64_t(indices[size_t(i)] * 4 + k)));
      samples.target.data_ptr<int64_t>()[i] = (x[0] > 0) + 2 * (x[1] > 0);
    }
    return samples;
  }

  std::chrono::milliseconds pause{0};
  int64_t fail_after = INT64_MAX;
  mutable std::atomic<int64_t> gets{0};

 private:
  int64_t size_;
  uint64_t seed_;
};

}  // namespace trireme::testing
