// Compares one-pass updates with the formulas of PyTorch and of papers, written per element in double.
#include "runtime/optimizer.h"

#include <ATen/ATen.h>

#include <cmath>

#include "../base/expect_error.h"
#include "base/random.h"

namespace trireme {
namespace {

at::Tensor draw(int64_t n, uint64_t key, at::ScalarType type) {
  at::Tensor t = at::empty({n}, at::kDouble);
  Philox random(key);
  for (int64_t i = 0; i < n; ++i) t.data_ptr<double>()[i] = random.normal(uint64_t(i));
  return t.to(type);
}

double norm(const std::vector<double>& values) {
  double squares = 0;
  for (double value : values) squares += value * value;
  return std::sqrt(squares);
}

/// Reference for one parameter, element by element. torch.optim.SGD, Adam, AdamW, Adagrad and RMSprop: documentation of
/// PyTorch 1.13. LARS: You, Gitman, Ginsburg 2017, equation 6 and algorithm 1. LAMB: You et al. 2019, algorithm 2,
/// phi(x) = x.
struct Reference {
  OptimizerConfig c;
  std::vector<double> w, a, b, m;
  std::vector<std::vector<double>> history = {};  ///< weights after each step

  void step(std::vector<double> g, double lr, int64_t t) {
    const double local = c.kind == &kLars ? lars_rate(g) : 1;
    for (size_t i = 0; i < w.size(); ++i)
      if (c.kind != &kAdamW && c.kind != &kLamb) g[i] += c.weight_decay * w[i];
    if (c.kind == &kSgd) sgd(g, lr, t);
    if (c.kind == &kAdam || c.kind == &kAdamW || c.kind == &kLamb) adam(g, lr, t);
    if (c.kind == &kRmsprop) rmsprop(g, lr);
    for (size_t i = 0; i < w.size() && c.kind == &kAdagrad; ++i) {
      a[i] += g[i] * g[i];
      w[i] -= lr / (1 + double(t - 1) * c.rate_decay) * g[i] / (std::sqrt(a[i]) + c.epsilon);
    }
    for (size_t i = 0; i < w.size() && c.kind == &kLars; ++i) {
      m[i] = c.momentum * m[i] + lr * local * g[i];
      w[i] -= m[i];
    }
    history.push_back(w);
  }

  /// The average of the weights after all steps so far. The newest counts most: each share is ema times that of the
  /// next step.
  std::vector<double> average() const {
    std::vector<double> sum(w.size());
    double shares = 0;
    for (size_t t = 0; t < history.size(); ++t) {
      const double share = std::pow(c.ema, double(history.size() - 1 - t));
      shares += share;
      for (size_t i = 0; i < w.size(); ++i) sum[i] += share * history[t][i];
    }
    for (double& value : sum) value /= shares;
    return sum;
  }

 private:
  double lars_rate(const std::vector<double>& g) const {
    return c.trust * norm(w) / (norm(g) + c.weight_decay * norm(w));
  }

  void sgd(const std::vector<double>& g, double lr, int64_t t) {
    for (size_t i = 0; i < w.size(); ++i) {
      m[i] = t == 1 ? g[i] : c.momentum * m[i] + g[i];
      w[i] -= lr * (c.nesterov ? g[i] + c.momentum * m[i] : m[i]);
    }
  }

  void adam(const std::vector<double>& g, double lr, int64_t t) {
    std::vector<double> r(w.size());
    for (size_t i = 0; i < w.size(); ++i) {
      a[i] = c.beta1 * a[i] + (1 - c.beta1) * g[i];
      b[i] = c.beta2 * b[i] + (1 - c.beta2) * g[i] * g[i];
      r[i] = a[i] / (1 - std::pow(c.beta1, double(t))) /
             (std::sqrt(b[i] / (1 - std::pow(c.beta2, double(t)))) + c.epsilon);
      if (c.kind == &kLamb) r[i] += c.weight_decay * w[i];
    }
    const double ratio = c.kind == &kLamb ? norm(w) / norm(r) : 1;
    for (size_t i = 0; i < w.size(); ++i) {
      if (c.kind == &kAdamW) w[i] -= lr * c.weight_decay * w[i];
      w[i] -= lr * ratio * r[i];
    }
  }

  void rmsprop(const std::vector<double>& g, double lr) {
    for (size_t i = 0; i < w.size(); ++i) {
      a[i] = c.alpha * a[i] + (1 - c.alpha) * g[i] * g[i];
      b[i] = c.alpha * b[i] + (1 - c.alpha) * g[i];
      const double step = g[i] / (std::sqrt(a[i] - (c.centered ? b[i] * b[i] : 0)) + c.epsilon);
      m[i] = c.momentum * m[i] + step;
      w[i] -= lr * m[i];
    }
  }
};

std::vector<OptimizerConfig> configs() {
  std::vector<OptimizerConfig> all(7);
  all[1].weight_decay = 0.1;
  all[2].momentum = 0.9;
  all[3].momentum = 0.9, all[3].weight_decay = 0.05, all[3].nesterov = true;
  all[4].kind = &kAdam;
  all[5].kind = &kAdam, all[5].weight_decay = 0.1, all[5].beta1 = 0.8, all[5].beta2 = 0.95, all[5].epsilon = 1e-3;
  all[6].kind = &kAdamW, all[6].weight_decay = 0.1;
  all.push_back({.kind = &kAdagrad, .epsilon = 1e-10});
  all.push_back({.kind = &kAdagrad, .weight_decay = 0.1, .rate_decay = 0.2, .initial_accumulator = 0.3});
  all.push_back({.kind = &kRmsprop});
  all.push_back({.kind = &kRmsprop, .momentum = 0.9, .weight_decay = 0.1, .epsilon = 1e-3, .alpha = 0.9});
  all.push_back({.kind = &kRmsprop, .epsilon = 1e-3, .alpha = 0.8, .centered = true});
  all.push_back(
      {.kind = &kRmsprop, .momentum = 0.5, .weight_decay = 0.01, .epsilon = 1e-3, .alpha = 0.9, .centered = true});
  all.push_back({.kind = &kLars, .momentum = 0.9, .weight_decay = 0.05, .trust = 0.02});
  all.push_back({.kind = &kLars, .trust = 0.1});
  all.push_back({.kind = &kLamb, .epsilon = 1e-6});
  all.push_back({.kind = &kLamb, .weight_decay = 0.1, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3});
  const size_t without = all.size();
  for (size_t i = 0; i < without; ++i) {
    all.push_back(all[i]);
    all.back().ema = 0.6;
  }
  return all;
}

/// The state's tensors are parts of longer tensors, as in a bucket.
constexpr int64_t kStateOffset = 3;

/// Several steps on one slice of a flat buffer. The gradient is the sum of `contributors` tensors.
void check(const OptimizerConfig& config, Range slice, int contributors, at::ScalarType type, double tolerance) {
  const int64_t length = slice.end + 5;
  const auto n = size_t(slice.size());
  at::Tensor master = draw(length, 1, type);
  const at::Tensor before = master.clone();
  std::vector<at::Tensor> state = make_optimizer_state(config, kStateOffset + slice.size() + 1, before.options());
  ASSERT_EQ(int(state.size()), optimizer_state_count(config));
  Reference reference{
      config, {}, std::vector<double>(n, config.initial_accumulator), std::vector<double>(n), std::vector<double>(n)};
  for (int64_t i = slice.begin; i < slice.end; ++i) reference.w.push_back(master[i].item<double>());
  for (int64_t step = 1; step <= 4; ++step) {
    const double lr = 0.1 / double(step), scale = step == 2 ? 0.5 : 1;
    std::vector<at::Tensor> gradients;
    std::vector<double> sum(n);
    for (int c = 0; c < contributors; ++c) {
      gradients.push_back(draw(length, uint64_t(100 * step + c), type));
      at::Tensor wide = gradients.back().to(at::kDouble);
      for (int64_t i = slice.begin; i < slice.end; ++i)
        sum[size_t(i - slice.begin)] += scale * wide.data_ptr<double>()[i];
    }
    SliceUpdate work{.slice = slice,
                     .gradients = gradients,
                     .gradient_offset = slice.begin,
                     .gradient_scale = scale,
                     .master = &master,
                     .state = state,
                     .state_offset = kStateOffset,
                     .learning_rate = lr,
                     .step = step};
    if (config.is_layerwise()) work.trust = trust_ratio(config, measure_slice(config, work));
    update_slice(config, work);
    reference.step(sum, lr, step);
  }
  at::Tensor wide = master.to(at::kDouble);
  for (int64_t i = 0; i < length; ++i) {
    if (i < slice.begin || i >= slice.end) {
      ASSERT_EQ(master[i].item<double>(), before[i].item<double>()) << "outside of the slice at " << i;
    } else {
      ASSERT_NEAR(wide.data_ptr<double>()[i], reference.w[size_t(i - slice.begin)], tolerance) << "at " << i;
    }
  }
  if (config.ema == 0) return;
  wide = state.back().to(at::kDouble);
  const std::vector<double> average = reference.average();
  for (size_t i = 0; i < n; ++i)
    ASSERT_NEAR(wide.data_ptr<double>()[kStateOffset + int64_t(i)], average[i], tolerance) << "at " << i;
}

TEST(Optimizer, FormulasOfPyTorchAndThePapers) {
  int number = 0;
  for (const OptimizerConfig& config : configs()) {
    SCOPED_TRACE("configuration " + std::to_string(number++));
    for (Range slice :
         {Range{0, 16}, Range{3, 4}, Range{1, 18}, Range{7, 2054}, Range{0, 2048}, Range{5, 2054}, Range{16, 4500}})
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

/// Reduced gradients may start anywhere: gradient_offset is the slice's place in them.
TEST(Optimizer, GradientOffset) {
  OptimizerConfig config;
  at::Tensor a = draw(64, 1, at::kFloat), b = a.clone(), gradient = draw(64, 2, at::kFloat);
  std::vector<at::Tensor> whole{gradient}, part{gradient.narrow(0, 20, 30).clone()};
  update_slice(
      config,
      {.slice = {20, 50}, .gradients = whole, .gradient_offset = 20, .master = &a, .state = {}, .learning_rate = 1});
  update_slice(
      config,
      {.slice = {20, 50}, .gradients = part, .gradient_offset = 0, .master = &b, .state = {}, .learning_rate = 1});
  EXPECT_TRUE(at::equal(a, b));
}

/// (1e8 + 1) - 1e8 is 0 in float, and 1 in any other order. All workers add in the same order, so replicas agree.
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
  update_slice(config, {.slice = slice,
                        .gradients = gradients,
                        .gradient_offset = 5,
                        .master = &master,
                        .compute = &compute,
                        .state = {},
                        .learning_rate = 0.5});
  EXPECT_TRUE(at::allclose(master.narrow(0, 5, slice.size()), expected.narrow(0, 5, slice.size()), 1e-6, 1e-6));
  EXPECT_TRUE(at::equal(compute.narrow(0, 5, slice.size()), master.narrow(0, 5, slice.size()).to(at::kBFloat16)));
  EXPECT_EQ(compute[4].item<float>(), 3);
  EXPECT_EQ(compute[2990].item<float>(), 3);
}

/// Halves are rounded to the even neighbour, and a carry may change the exponent.
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
  update_slice(config, {.slice = {0, n},
                        .gradients = gradients,
                        .master = &master,
                        .compute = &compute,
                        .state = {},
                        .learning_rate = 0});
  for (int64_t i = 0; i < n; ++i)
    EXPECT_EQ(static_cast<const uint16_t*>(compute.data_ptr())[i], expected[size_t(i)]) << std::hex << bits[size_t(i)];
}

TEST(Optimizer, StateTensors) {
  std::vector<int> counts;
  for (const OptimizerConfig& config : configs()) counts.push_back(optimizer_state_count(config));
  EXPECT_EQ(counts,
            (std::vector<int>{0, 0, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 3, 1, 0, 2, 2,  // with averaged weights one more each
                              1, 1, 2, 2, 3, 3, 3, 2, 2, 2, 3, 3, 4, 2, 1, 3, 3}));
}

TEST(Optimizer, Names) {
  for (const std::string& name : optimizer_names()) EXPECT_EQ(parse_optimizer(name, "k")->name, name);
  EXPECT_EQ(optimizer_names().size(), 7u);
  expect_error(Blame::user, {"optimizer.kind", "\"lamp\"", "sgd, adam, adamw, adagrad, rmsprop, lars, lamb"},
               [] { parse_optimizer("lamp", "optimizer.kind"); });
}

// -- layer-wise

/// If a norm is zero there is no scaling.
TEST(TrustRatio, WithoutNorms) {
  const OptimizerConfig lars{.kind = &kLars, .weight_decay = 0.5, .trust = 0.1}, lamb{.kind = &kLamb};
  EXPECT_DOUBLE_EQ(trust_ratio(lars, {.weights = 4, .step = 9}), 0.1 * 2 / (3 + 0.5 * 2));
  EXPECT_DOUBLE_EQ(trust_ratio(lamb, {.weights = 4, .step = 9}), 2.0 / 3);
  for (const OptimizerConfig& config : {lars, lamb}) {
    EXPECT_EQ(trust_ratio(config, {.weights = 0, .step = 9}), 1);
    EXPECT_EQ(trust_ratio(config, {.weights = 4, .step = 0}), 1);
  }
}

/// Sums of squares may be computed piece by piece. The pieces' lengths are not multiples of a vector register.
TEST(MeasureSlice, AddsUpOverPieces) {
  for (at::ScalarType type : {at::kFloat, at::kDouble})
    for (const OptimizerConfig& config :
         {OptimizerConfig{.kind = &kLars}, OptimizerConfig{.kind = &kLamb, .weight_decay = 0.1}}) {
      constexpr int64_t kLength = 5003;
      at::Tensor master = draw(kLength, 1, type);
      const std::vector<at::Tensor> gradients{draw(kLength, 2, type)};
      auto measure = [&](std::vector<at::Tensor>& state, Range range) {
        return measure_slice(config, {.slice = range,
                                      .gradients = gradients,
                                      .gradient_offset = range.begin,
                                      .gradient_scale = 0.5,
                                      .master = &master,
                                      .state = state,
                                      .state_offset = range.begin});
      };
      std::vector<at::Tensor> once = make_optimizer_state(config, kLength, master.options());
      std::vector<at::Tensor> pieces = make_optimizer_state(config, kLength, master.options());
      const SquareSums whole = measure(once, {0, kLength});
      SquareSums sum;
      for (const Range& range : {Range{0, 0}, Range{0, 1}, Range{1, 18}, Range{18, 2500}, Range{2500, 5003}}) {
        const SquareSums part = measure(pieces, range);
        sum.weights += part.weights;
        sum.step += part.step;
      }
      EXPECT_NEAR(sum.weights, whole.weights, 1e-12 * whole.weights);
      EXPECT_NEAR(sum.step, whole.step, 1e-12 * whole.step);
      EXPECT_NEAR(whole.weights, master.to(at::kDouble).square().sum().item<double>(), 1e-12 * whole.weights);
      const double squares = 0.25 * gradients[0].to(at::kDouble).square().sum().item<double>();
      EXPECT_EQ(std::abs(whole.step - squares) <= 1e-12 * squares, config.kind == &kLars);
      for (size_t k = 0; k < once.size(); ++k) EXPECT_TRUE(at::equal(once[k], pieces[k]));
    }
}

/// The variance of a constant gradient is zero but for rounding; rounding must not give a NaN.
TEST(Optimizer, CenteredRmspropOfAConstantGradient) {
  const OptimizerConfig config{.kind = &kRmsprop, .epsilon = 1e-3, .alpha = 0.5, .centered = true};
  at::Tensor master = at::zeros({64}, at::kFloat);
  std::vector<at::Tensor> state = make_optimizer_state(config, 64, master.options());
  const std::vector<at::Tensor> gradients{draw(64, 3, at::kFloat)};
  for (int64_t step = 1; step <= 60; ++step)
    update_slice(config, {.slice = {0, 64},
                          .gradients = gradients,
                          .master = &master,
                          .state = state,
                          .learning_rate = 1e-6,
                          .step = step});
  EXPECT_TRUE(at::isfinite(master).all().item<bool>());
}

TEST(ExchangeValues, OfFlatTensors) {
  at::Tensor a = draw(3001, 1, at::kFloat), b = draw(3001, 2, at::kFloat);
  const at::Tensor first = a.clone(), second = b.clone();
  exchange_values(a, b);
  EXPECT_TRUE(at::equal(a, second) && at::equal(b, first));
  at::Tensor longer = draw(3002, 3, at::kFloat), wide = draw(3001, 3, at::kDouble);
  expect_error(Blame::run, {"internal error", "of one kind"}, [&] { exchange_values(a, longer); });
  expect_error(Blame::run, {"internal error", "of one kind"}, [&] { exchange_values(a, wide); });
}

}  // namespace
}  // namespace trireme
