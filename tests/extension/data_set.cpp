// A data set: "rings", generated points in rings around the origin; the class is the number of the ring.
#include <ATen/ATen.h>
#include <trireme/dataset.h>
#include <trireme/error.h>

#include <charconv>
#include <cmath>
#include <random>

namespace {

using namespace trireme;

class Rings final : public Dataset {
 public:
  Rings(int64_t size, int64_t rings, uint64_t seed) : rings_(rings) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> noise(0, 0.05);
    std::uniform_real_distribution<double> angle(0, 2 * M_PI);
    points_ = at::empty({size, 2}, at::kFloat);
    labels_ = at::empty({size}, at::kLong);
    auto points = points_.accessor<float, 2>();
    auto labels = labels_.accessor<int64_t, 1>();
    for (int64_t i = 0; i < size; ++i) {
      const int64_t ring = i % rings;
      const double radius = double(ring + 1) / double(rings) + noise(random), a = angle(random);
      points[i][0] = float(radius * std::cos(a));
      points[i][1] = float(radius * std::sin(a));
      labels[i] = ring;
    }
  }

  int64_t size() const override { return points_.size(0); }
  Shape sample_shape() const override { return {2}; }
  int64_t classes() const override { return rings_; }
  Samples get(std::span<const int64_t> indices, const Draw&) const override {
    const at::Tensor index =
        at::tensor(at::ArrayRef<int64_t>(indices.data(), indices.size()), at::TensorOptions(at::kLong));
    return {points_.index_select(0, index), labels_.index_select(0, index)};
  }

 private:
  const int64_t rings_;
  at::Tensor points_, labels_;
};

int64_t rings_of(const DataRequest& request) {
  const auto found = request.options.find("rings");
  if (found == request.options.end()) return 3;
  int64_t rings = 0;
  const std::string& text = found->second;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), rings);
  if (read.ptr != text.data() + text.size() || rings < 2)
    fail_user({"data.rings", text, "must be a whole number from 2 on", "write rings = \"3\""});
  return rings;
}

TaskData open_rings(const DataRequest& request) {
  constexpr int64_t kTrain = 4096, kTest = 1024;
  const auto limited = [](int64_t limit, int64_t all) { return limit > 0 ? std::min(limit, all) : all; };
  const int64_t rings = rings_of(request);
  return {.train = std::make_shared<Rings>(limited(request.train_limit, kTrain), rings, request.seed),
          .test = std::make_shared<Rings>(limited(request.test_limit, kTest), rings, request.seed + 1),
          .source = "generated rings",
          .generated = true};
}

const bool kRegistered = register_data_set({
    .name = "rings",
    .title = "rings",
    .description = "points in rings around the origin, 4,096 + 1,024",
    .task = LearningTask::classification,
    .keys = {"rings"},
    .open = open_rings,
});

}  // namespace
