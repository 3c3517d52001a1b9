// One-pass updates against PyTorch's formulas written element by element in double.
#include "runtime/optimizer.h"

#include <ATen/ATen.h>

#include <cmath>

#include "../base/expect_error.h"
#include "base/random.h"

namespace trireme {
namespace {

using Kind = OptimizerConfig::Kind;

at::Tensor draw(int64_t n, uint64_t key, at::ScalarType type) {
  at::Tensor t = at::empty({n}, at::kDouble);
  Philox random(key);
  for (int64_t i = 0; i < n; ++i) t.data_ptr<double>()[i] = random.normal(uint64_t(i));
  return t.to(type);
}

/// torch.optim.SGD, Adam and AdamW (documentation of PyTorch 1.13), one element at a time.
struct Reference {
  OptimizerConfig c;
  std::vector<double> w, a, b;

  void step(const std::vector<double>& gradient, double scale, double lr, int64_t t) {
    for (size_t i = 0; i < w.size(); ++i) {
      double g = gradient[i] * scale;
      if (c.kind == Kind::adamw) w[i] -= lr * c.weight_decay * w[i];
      else g += c.weight_decay * w[i];
      if (c.kind == Kind::sgd) {
        if (c.momentum != 0) {
          a[i] = t == 1 ? g : c.momentum * a[i] + g;
          g = c.nesterov ? g + c.momentum * a[i] : a[i];
        }
        w[i] -= lr * g;
        continue;
      }
      a[i] = c.beta1 * a[i] + (1 - c.beta1) * g;
      b[i] = c.beta2 * b[i] + (1 - c.beta2) * g * g;
      const double m = a[i] / (1 - std::pow(c.beta1, double(t))), v = b[i] / (1 - std::pow(c.beta2, double(t)));
      w[i] -= lr * m / (std::sqrt(v) + c.epsilon);
    }
  }
};

std::vector<OptimizerConfig> configs() {
  std::vector<OptimizerConfig> all(7);
  all[1].weight_decay = 0.1;
  all[2].momentum = 0.9;
  all[3].momentum = 0.9, all[3].weight_decay = 0.05, all[3].nesterov = true;
  all[4].kind = Kind::adam;
  all[5].kind = Kind::adam, all[5].weight_decay = 0.1, all[5].beta1 = 0.8, all[5].beta2 = 0.95, all[5].epsilon = 1e-3;
  all[6].kind = Kind::adamw, all[6].weight_decay = 0.1;
  return all;
}

/// Several steps on one slice of a flat buffer, the gradient in `contributors` summands.
void check(const OptimizerConfig& config, Range slice, int contributors, at::ScalarType type, double tolerance) {
  const int64_t length = slice.end + 5;
  at::Tensor master = draw(length, 1, type);
  const at::Tensor before = master.clone();
  std::vector<at::Tensor> state;
  for (int i = 0; i < optimizer_state_count(config); ++i) state.push_back(at::zeros({slice.size()}, type));
  Reference reference{config, {}, std::vector<double>(size_t(slice.size())), std::vector<double>(size_t(slice.size()))};
  for (int64_t i = slice.begin; i < slice.end; ++i) reference.w.push_back(master[i].item<double>());
  for (int64_t step = 1; step <= 4; ++step) {
    std::vector<at::Tensor> gradients;
    std::vector<double> sum(size_t(slice.size()));
    for (int c = 0; c < contributors; ++c) {
      gradients.push_back(draw(length, uint64_t(100 * step + c), type));
      at::Tensor wide = gradients.back().to(at::kDouble);
      for (int64_t i = slice.begin; i < slice.end; ++i) sum[size_t(i - slice.begin)] += wide.data_ptr<double>()[i];
    }
    const double lr = 0.1 / double(step), scale = step == 2 ? 0.5 : 1;
    update_slice(config, {.slice = slice, .gradients = gradients, .gradient_offset = slice.begin, .gradient_scale = scale,
                          .master = &master, .state = state, .learning_rate = lr, .step = step});
    reference.step(sum, scale, lr, step);
  }
  at::Tensor wide = master.to(at::kDouble);
  for (int64_t i = 0; i < length; ++i) {
    if (i < slice.begin || i >= slice.end)
      ASSERT_EQ(master[i].item<double>(), before[i].item<double>()) << "outside of the slice at " << i;
    else
      ASSERT_NEAR(wide.data_ptr<double>()[i], reference.w[size_t(i - slice.begin)], tolerance) << "at " << i;
  }
}

TEST(Optimizer, PyTorchsFormulas) {
  int number = 0;
  for (const OptimizerConfig& config : configs()) {
    SCOPED_TRACE("configuration " + std::to_string(number++));
    for (Range slice : {Range{0, 16}, Range{3, 4}, Range{1, 18}, Range{7, 2054}, Range{0, 2048}, Range{5, 2054}, Range{16, 4500}})
      for (int contributors : {1, 2, 3}) {
        check(config, slice, contributors, at::kDouble, 1e-12);
        check(config, slice, contributors, at::kFloat, 1e-5);
      }
  }
}

TEST(Optimizer, EmptySlice) {
  OptimizerConfig config;
  at::Tensor master = draw(16, 1, at::kFloat);
  const at::Tensor before = master.clone();
  update_slice(config, {.slice = {4, 4}, .gradients = {}, .master = &master, .state = {}, .learning_rate = 1});
  EXPECT_TRUE(at::equal(master, before));
}

/// Already reduced gradients may start anywhere: gradient_offset is the slice's place in them.
TEST(Optimizer, GradientOffset) {
  OptimizerConfig config;
  at::Tensor a = draw(64, 1, at::kFloat), b = a.clone(), gradient = draw(64, 2, at::kFloat);
  std::vector<at::Tensor> whole{gradient}, part{gradient.narrow(0, 20, 30).clone()};
  update_slice(config, {.slice = {20, 50}, .gradients = whole, .gradient_offset = 20, .master = &a, .state = {}, .learning_rate = 1});
  update_slice(config, {.slice = {20, 50}, .gradients = part, .gradient_offset = 0, .master = &b, .state = {}, .learning_rate = 1});
  EXPECT_TRUE(at::equal(a, b));
}

/// (1e8 + 1) - 1e8 is 0 in float, 1 in any other order: replicas agree because everybody adds in the same order.
TEST(SumGradients, InOrder) {
  for (int64_t n : {1, 15, 2048, 3001}) {
    std::vector<at::Tensor> parts{at::full({n + 3}, 1e8f), at::full({n + 3}, 1.0f), at::full({n + 3}, -1e8f)};
    at::Tensor sum = at::full({n}, 7.0f);
    sum_gradients(parts, {3, n + 3}, sum);
    EXPECT_TRUE(at::equal(sum, at::zeros({n})));
    std::swap(parts[1], parts[2]);
    sum_gradients(parts, {3, n + 3}, sum);
    EXPECT_TRUE(at::equal(sum, at::ones({n})));
  }
}

TEST(SumGradients, Bfloat16IntoFloat) {
  const int64_t n = 2500;
  std::vector<at::Tensor> parts{draw(n, 1, at::kBFloat16), draw(n, 2, at::kBFloat16)};
  at::Tensor sum = at::empty({n - 1}, at::kFloat);
  sum_gradients(parts, {1, n}, sum);
  EXPECT_TRUE(at::equal(sum, (parts[0].to(at::kFloat) + parts[1].to(at::kFloat)).narrow(0, 1, n - 1)));
}

TEST(Optimizer, Bfloat16GradientsAndComputeCopy) {
  const int64_t n = 3000;
  const Range slice{5, 2990};
  OptimizerConfig config;
  at::Tensor master = draw(n, 1, at::kFloat), compute = at::full({n}, 3, at::kBFloat16);
  std::vector<at::Tensor> gradients{draw(n, 2, at::kBFloat16)};
  at::Tensor expected = master - 0.5 * gradients[0].to(at::kFloat);
  update_slice(config, {.slice = slice, .gradients = gradients, .gradient_offset = 5, .master = &master, .compute = &compute,
                        .state = {}, .learning_rate = 0.5});
  EXPECT_TRUE(at::allclose(master.narrow(0, 5, slice.size()), expected.narrow(0, 5, slice.size()), 1e-6, 1e-6));
  EXPECT_TRUE(at::equal(compute.narrow(0, 5, slice.size()), master.narrow(0, 5, slice.size()).to(at::kBFloat16)));
  EXPECT_EQ(compute[4].item<float>(), 3);
  EXPECT_EQ(compute[2990].item<float>(), 3);
}

/// Halves go to the even neighbour, and carries run into the exponent.
TEST(Optimizer, ComputeCopyRoundsToNearestEven) {
  const std::vector<uint32_t> bits{0x3F800000, 0x3F808000, 0x3F818000, 0x3F808001, 0x3F807FFF, 0x3F7FFFFF, 0xBF808000,
                                   0x00000001, 0x80000000, 0x7F7F0000, 0x33333333, 0x4B7FFFFF, 0x7FC00000};
  const std::vector<uint16_t> expected{0x3F80, 0x3F80, 0x3F82, 0x3F81, 0x3F80, 0x3F80, 0xBF80,
                                       0x0000, 0x8000, 0x7F7F, 0x3333, 0x4B80, 0x7FC0};
  const auto n = int64_t(bits.size());
  at::Tensor master = at::empty({n}, at::kFloat), compute = at::empty({n}, at::kBFloat16);
  std::memcpy(master.data_ptr(), bits.data(), size_t(n) * 4);
  std::vector<at::Tensor> gradients{at::zeros({n}, at::kFloat)};
  OptimizerConfig config;
  update_slice(config, {.slice = {0, n}, .gradients = gradients, .master = &master, .compute = &compute, .state = {}, .learning_rate = 0});
  for (int64_t i = 0; i < n; ++i)
    EXPECT_EQ(static_cast<const uint16_t*>(compute.data_ptr())[i], expected[size_t(i)]) << std::hex << bits[size_t(i)];
}

TEST(Optimizer, StateTensors) {
  std::vector<int> counts;
  for (const OptimizerConfig& config : configs()) counts.push_back(optimizer_state_count(config));
  EXPECT_EQ(counts, (std::vector<int>{0, 0, 1, 1, 2, 2, 2}));
}

TEST(Optimizer, Names) {
  EXPECT_EQ(parse_optimizer("sgd", "k"), Kind::sgd);
  EXPECT_EQ(parse_optimizer("adam", "k"), Kind::adam);
  EXPECT_EQ(parse_optimizer("adamw", "k"), Kind::adamw);
  expect_error(Blame::user, {"optimizer.kind", "\"lamb\"", "sgd, adam or adamw"}, [] { parse_optimizer("lamb", "optimizer.kind"); });
}

}  // namespace
}  // namespace trireme
