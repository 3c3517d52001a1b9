// Compares layers that are split by image rows ("height") with the whole layer, on random shapes. Workers are threads.
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "layer_cases.h"
#include "support/ranks.h"
#include "trireme/layers/avg_pool2d.h"
#include "trireme/layers/batch_norm.h"
#include "trireme/layers/conv2d.h"
#include "trireme/layers/global_avg_pool.h"
#include "trireme/layers/max_pool2d.h"

namespace trireme::test_support {
namespace {

constexpr double kTolerance = 1e-12;
const Placement kRows = Placement::shard(2);

const ShardingOption* find_height(const std::vector<ShardingOption>& options) {
  for (const ShardingOption& option : options)
    if (option.name == "height") return &option;
  return nullptr;
}

/// Layers in sequence. The second input of a layer is the output of the first layer.
struct Chain {
  std::vector<LayerCase> layers;
  Shape input;  ///< sample shape

  explicit Chain(Shape input) : input(std::move(input)) {}
  Chain& add(std::shared_ptr<const Layer> layer) {
    std::vector<Shape> inputs{outputs_.empty() ? input : outputs_.back()};
    auto* norm = dynamic_cast<const BatchNorm*>(layer.get());
    if (norm && norm->sharding_options(std::vector{inputs[0], inputs[0]}, 1)[0].inputs.size() == 2)
      inputs.push_back(outputs_[0]);
    outputs_.push_back(layer->output_shape(inputs));
    layers.push_back({layer->name(), layer, inputs});
    return *this;
  }

 private:
  std::vector<Shape> outputs_;
};

struct Outcome {
  at::Tensor output, input_gradient;
  std::vector<at::Tensor> parameter_gradients, buffers;  // over all layers
};

struct Place {
  int index = 0, degree = 1;
  Communicator* group = nullptr;
  bool defer = false;
};

/// Forward and backward on one worker. `weights` returns the output's gradient in the placement of the last layer's
/// option.
Outcome run(const Chain& chain, const at::Tensor& input, const std::function<at::Tensor(const at::Tensor&)>& weights,
            uint64_t seed, const Place& place = {}) {
  const size_t n = chain.layers.size();
  std::vector<TestCall> calls(n);
  std::vector<std::vector<ShardingOption>> options(n);
  std::vector<at::Tensor> outputs;
  for (size_t i = 0; i < n; ++i) {
    const LayerCase& c = chain.layers[i];
    fill_call(calls[i], c, seed + 10 * i);
    options[i] = c.layer->sharding_options(c.inputs, place.degree);
    calls[i].option = place.degree > 1 ? find_height(options[i]) : &options[i][0];
    calls[i].tensor_degree = place.degree;
    calls[i].tensor_index = place.index;
    calls[i].tensor = place.group;
    calls[i].defer_parameters = place.defer;
    std::vector<at::Tensor> inputs;
    inputs.push_back(i == 0 ? input : outputs.back());
    if (c.inputs.size() == 2) inputs.push_back(outputs[0]);
    outputs.push_back(c.layer->forward(calls[i], inputs));
  }
  std::vector<at::Tensor> gradients(n + 1);
  auto add = [](at::Tensor& sum, const at::Tensor& g) { sum = sum.defined() ? sum + g : g; };
  gradients[n] = weights(outputs.back());
  for (size_t i = n; i-- > 0;) {
    auto backward = chain.layers[i].layer->backward(calls[i], gradients[i + 1]);
    if (place.defer && chain.layers[i].layer->splits_backward()) {
      EXPECT_TRUE(calls[i].gradients.empty()) << "backward leaves the parameters' gradients for later";
      chain.layers[i].layer->backward_parameters(calls[i]);
    }
    add(gradients[i], backward[0]);
    if (backward.size() == 2) add(gradients[1], backward[1]);
  }
  Outcome outcome{outputs.back(), gradients[0], {}, {}};
  for (size_t i = 0; i < n; ++i) {
    for (size_t p = 0; p < calls[i].parameters.size(); ++p)
      outcome.parameter_gradients.push_back(calls[i].gradients.at(int(p)));
    for (const at::Tensor& b : calls[i].buffers) outcome.buffers.push_back(b);
  }
  return outcome;
}

std::vector<Outcome> run_split(const Chain& chain, const at::Tensor& input, const at::Tensor& weights, int degree,
                               uint64_t seed, bool defer = false) {
  const LayerCase& last = chain.layers.back();
  const auto options = last.layer->sharding_options(last.inputs, degree);
  const Placement output = find_height(options)->output;
  std::vector<Outcome> outcomes(static_cast<size_t>(degree));
  run_ranks(degree, [&](Communicator& group) {
    c10::InferenceMode inference;  // like the runtime
    auto weights_of = [&](const at::Tensor&) { return shard_of(weights, output, degree, group.rank()); };
    outcomes[size_t(group.rank())] = run(chain, shard_of(input, kRows, degree, group.rank()), weights_of, seed,
                                         {group.rank(), degree, &group, defer});
  });
  return outcomes;
}

void expect_near(const at::Tensor& got, const at::Tensor& expected, const std::string& what) {
  ASSERT_EQ(got.sizes(), expected.sizes()) << what;
  if (got.numel() == 0) return;
  const double size = std::max(1.0, expected.abs().max().item<double>());
  EXPECT_LT((got - expected).abs().max().item<double>(), kTolerance * size) << what;
}

/// Expects equal output, input gradient, parameter gradients and running statistics of the split and the whole chain.
void expect_split_equals_whole(const Chain& chain, int degree, int64_t batch, uint64_t seed, bool defer = false) {
  Shape sizes = chain.input;
  sizes.insert(sizes.begin(), batch);
  const at::Tensor input = random_tensor(sizes, seed);
  at::Tensor weights;
  auto draw_weights = [&](const at::Tensor& y) { return weights = random_tensor(y.sizes(), seed + 1); };
  const Outcome whole = run(chain, input, draw_weights, seed);
  const std::vector<Outcome> parts = run_split(chain, input, weights, degree, seed, defer);
  auto gather = [&](const Placement& placement, auto part) {
    std::vector<at::Tensor> tensors;
    for (const Outcome& o : parts) tensors.push_back(part(o));
    return assemble(tensors, placement);
  };
  const bool sums = whole.output.dim() == 2;  // global average pooling
  expect_near(gather(sums ? Placement::partial() : kRows, [](const Outcome& o) { return o.output; }), whole.output,
              "output");
  expect_near(gather(kRows, [](const Outcome& o) { return o.input_gradient; }), whole.input_gradient, "input gradient");
  for (size_t p = 0; p < whole.parameter_gradients.size(); ++p)
    expect_near(gather(Placement::partial(), [&](const Outcome& o) { return o.parameter_gradients[p]; }),
                whole.parameter_gradients[p], "parameter gradient " + std::to_string(p));
  for (size_t b = 0; b < whole.buffers.size(); ++b)
    for (const Outcome& o : parts) {
      expect_near(o.buffers[b], whole.buffers[b], "running statistics");
      EXPECT_TRUE(at::equal(o.buffers[b], parts[0].buffers[b]))
          << "running statistics are the same bits on all workers";
    }
}

/// Checks for every output row that a worker needs only its own rows and as many borrowed rows on each side.
bool fits(int64_t kernel, int64_t stride, int64_t padding, int64_t height, int degree, int64_t dilation = 1) {
  const int64_t outputs = (height + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
  if (height % degree || outputs % degree || height != stride * outputs) return false;
  const int64_t rows = height / degree, output_rows = outputs / degree;
  for (int64_t y = 0; y < outputs; ++y)
    for (int64_t tap = 0; tap < kernel; ++tap) {
      const int64_t at = y * stride - padding + tap * dilation, own = y / output_rows * rows;
      if (at < own - rows || at >= own + 2 * rows) return false;
    }
  return true;
}

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int64_t operator()(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine_); }

 private:
  std::mt19937 engine_;
};

TEST(Height, ConvolutionsOnRandomShapes) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random pick(seed);
  int offered = 0;
  for (int i = 0; i < 150; ++i) {
    const int degree = int(pick(2, 4));
    const int64_t kernel = 2 * pick(0, 3) + 1, stride = pick(1, 2), groups = pick(1, 2), dilation = pick(0, 3) ? 1 : 2;
    const int64_t span = dilation * (kernel - 1) + 1;
    // Mostly the padding that keeps the size, so that most cases can be split.
    const int64_t padding = pick(0, 4) ? span / 2 : pick(0, span / 2 + 1);
    const int64_t height = degree * stride * pick(1, 5) + (pick(0, 9) ? 0 : 1);
    const Size2d columns{pick(0, 2) ? kernel : pick(1, 4),
                         pick(0, 2) ? stride : pick(1, 3)};  // kernel and stride along the width
    const int64_t width = pick(columns.height, 9);
    const int64_t in = groups * pick(1, 3),
                  out = groups * (pick(0, 3) ? pick(1, 3) : 40);  // many outputs: one matrix product
    if (height + 2 * padding < span) continue;
    SCOPED_TRACE(::testing::Message() << "case " << i << ": degree " << degree << " kernel " << kernel << " stride "
                                      << stride << " dilation " << dilation << " padding " << padding
                                      << " along the width " << to_string(columns) << " groups " << groups << " in "
                                      << in << " out " << out << " " << height << "x" << width);
    Chain chain({in, height, width});
    chain.add(std::make_shared<Conv2d>("conv", Conv2dOptions{.in = in,
                                                             .out = out,
                                                             .kernel = {kernel, columns.height},
                                                             .stride = {stride, columns.width},
                                                             .padding = {padding, columns.height / 2},
                                                             .groups = groups,
                                                             .bias = pick(0, 1) == 1,
                                                             .dilation = {dilation, 1}}));
    const auto options = chain.layers[0].layer->sharding_options(chain.layers[0].inputs, degree);
    const bool is_offered = find_height(options) != nullptr;
    ASSERT_EQ(is_offered, fits(kernel, stride, padding, height, degree, dilation));
    if (!is_offered) continue;
    ++offered;
    expect_split_equals_whole(chain, degree, pick(1, 3), seed + unsigned(i), pick(0, 1) == 1);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(offered, 40);
}

TEST(Height, PoolsOnRandomShapes) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random pick(seed);
  int offered = 0, offered_elsewhere = 0;
  for (int i = 0; i < 100; ++i) {
    const int degree = int(pick(2, 4));
    const int64_t kernel = pick(1, 5), stride = pick(1, 3), padding = pick(0, kernel / 2);
    const Shape image{pick(1, 5), degree * stride * pick(1, 4), pick(kernel, 9)};
    if (image[1] + 2 * padding < kernel) continue;
    SCOPED_TRACE(::testing::Message() << "case " << i << ": degree " << degree << " kernel " << kernel << " stride "
                                      << stride << " padding " << padding << " image " << to_string(image));
    Chain highest(image), mean(image), highest_up(image), own_mean(image);
    highest.add(std::make_shared<MaxPool2d>("pool", MaxPool2dOptions{kernel, stride, padding}));
    mean.add(std::make_shared<AvgPool2d>("pool", AvgPool2dOptions{kernel, stride, padding}));
    // These pools (sizes rounded up; mean without padding) do not always offer the split, but where they do it must be
    // right.
    highest_up.add(std::make_shared<MaxPool2d>("pool", MaxPool2dOptions{kernel, stride, padding, /*ceil_mode=*/true}));
    own_mean.add(std::make_shared<AvgPool2d>(
        "pool", AvgPool2dOptions{kernel, stride, padding, false, /*count_include_pad=*/false}));
    for (const Chain& chain : {highest_up, own_mean}) {
      if (!find_height(chain.layers[0].layer->sharding_options(chain.layers[0].inputs, degree))) continue;
      ++offered_elsewhere;
      expect_split_equals_whole(chain, degree, pick(1, 3), seed + unsigned(i));
    }
    for (const Chain& chain : {highest, mean}) {
      const auto options = chain.layers[0].layer->sharding_options(chain.layers[0].inputs, degree);
      const bool is_offered = find_height(options) != nullptr;
      ASSERT_EQ(is_offered, fits(kernel, stride, padding, image[1], degree));
      offered += is_offered;
      if (is_offered) expect_split_equals_whole(chain, degree, pick(1, 3), seed + unsigned(i));
    }
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(offered, 30);
  EXPECT_GT(offered_elsewhere, 15);
}

/// Every variant of norms between convolutions and pools; the output is a vector.
Chain network() {
  Chain chain({3, 48, 8});
  chain.add(std::make_shared<Conv2d>("conv1", Conv2dOptions{.in = 3, .out = 4, .kernel = 3, .padding = 1}))
      .add(std::make_shared<BatchNorm>("norm1", 4, BatchNormOptions{.relu = true}))
      .add(
          std::make_shared<Conv2d>("conv2", Conv2dOptions{.in = 4, .out = 4, .kernel = 7, .padding = 3, .bias = false}))
      .add(std::make_shared<BatchNorm>("norm2", 4, BatchNormOptions{.relu = true, .residual = true}))
      .add(std::make_shared<MaxPool2d>("pool1", MaxPool2dOptions{3, 2, 1}))
      .add(std::make_shared<Conv2d>("conv3", Conv2dOptions{.in = 4, .out = 6, .kernel = 1, .stride = 2}))
      .add(std::make_shared<BatchNorm>("norm3", 6))
      .add(std::make_shared<AvgPool2d>("pool2", AvgPool2dOptions{3, 1, 1}))
      .add(std::make_shared<GlobalAvgPool>("mean"));
  return chain;
}

TEST(Height, ANetworkOfAllLayers) {
  for (int degree : {2, 3, 4})
    for (int64_t batch : {3, 1, 0})
      for (bool defer : {false, true}) {
        SCOPED_TRACE(::testing::Message()
                     << degree << " workers, batch of " << batch << (defer ? ", split backward" : ""));
        expect_split_equals_whole(network(), degree, batch, 17, defer);
      }
}

TEST(Height, ANetworkAgainstDifferences) {
  constexpr double kStep = 1e-6;
  const Chain chain = network();
  const at::Tensor input = random_tensor({2, 3, 48, 8}, 1), direction = random_tensor({2, 3, 48, 8}, 2);
  const at::Tensor weights = random_tensor({2, 6}, 3);
  auto objective = [&](const at::Tensor& x) {
    double sum = 0;
    for (const Outcome& o : run_split(chain, x, weights, 3, 5)) sum += (o.output * weights).sum().item<double>();
    return sum;
  };
  const double expected = (objective(input + kStep * direction) - objective(input - kStep * direction)) / (2 * kStep);
  double got = 0;
  const auto parts = run_split(chain, input, weights, 3, 5);
  for (int i = 0; i < 3; ++i)
    got += (parts[size_t(i)].input_gradient * shard_of(direction, kRows, 3, i)).sum().item<double>();
  EXPECT_NEAR(got, expected, 1e-6 * std::abs(expected));
}

TEST(Height, LowPrecisionKeepsTypeAndOrder) {
  for (at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (int64_t out : {6, 300}) {  // computed directly, and as one matrix product
      SCOPED_TRACE(::testing::Message() << c10::toString(type) << " " << out);
      const Conv2d conv("conv", {.in = 8, .out = out, .kernel = 3, .padding = 1});
      auto draw = [&](Shape sizes, uint64_t seed) { return channels_last(random_tensor(sizes, seed).to(type)); };
      const at::Tensor input = draw({4, 8, 6, 5}, 1), weight = draw({out, 8, 3, 3}, 2), bias = draw({out}, 3);
      const at::Tensor gradient = draw({4, out, 6, 5}, 4);
      auto options = conv.sharding_options(std::vector<Shape>{{8, 6, 5}}, 3);
      TestCall whole;
      whole.parameters = {weight, bias};
      const at::Tensor expected = conv.forward(whole, std::vector{input}),
                       expected_gradient = conv.backward(whole, gradient)[0];
      std::vector<at::Tensor> outputs(3), gradients(3);
      run_ranks(3, [&](Communicator& group) {
        const int r = group.rank();
        TestCall call;
        call.parameters = {weight, bias};
        call.option = find_height(options);
        call.tensor_degree = 3;
        call.tensor_index = r;
        call.tensor = &group;
        outputs[size_t(r)] = conv.forward(call, std::vector{shard_of(input, kRows, 3, r)});
        gradients[size_t(r)] = conv.backward(call, shard_of(gradient, kRows, 3, r))[0];
      });
      for (const auto& tensors : {outputs, gradients})
        for (const at::Tensor& t : tensors) {
          EXPECT_EQ(t.scalar_type(), type);
          EXPECT_TRUE(t.is_contiguous(at::MemoryFormat::ChannelsLast));
        }
      auto relative = [](const at::Tensor& a, const at::Tensor& b) {
        return ((a - b).abs().max() / b.abs().max()).item<double>();
      };
      const double rounding = type == at::kFloat ? 1e-6 : 0.02;
      EXPECT_LT(relative(at::cat(outputs, 2), expected), rounding);
      EXPECT_LT(relative(at::cat(gradients, 2), expected_gradient), rounding);
    }
}

/// Two data shards of unequal size, each on two workers, with global statistics.
TEST(Height, GlobalBatchNormOverBothAxes) {
  const BatchNorm norm("norm", 4, {.relu = true});
  const at::Tensor input = random_tensor({3, 4, 6, 5}, 1), gradient = random_tensor({3, 4, 6, 5}, 2);
  auto prepare = [&](TestCall& call) {
    call.parameters = {random_tensor({4}, 3), random_tensor({4}, 4)};
    call.buffers = {at::zeros({4}, at::kDouble), at::ones({4}, at::kDouble)};
    call.micro_batch_samples = 3;
    call.batch_norm = BatchNormScope::global;
  };
  TestCall whole;
  prepare(whole);
  const at::Tensor expected = norm.forward(whole, std::vector{input}),
                   expected_gradient = norm.backward(whole, gradient)[0];
  const auto options = norm.sharding_options(std::vector<Shape>{{4, 6, 5}}, 2);
  for (int64_t first_shard : {2, 3}) {  // the second shard has one sample or none
    std::vector<TestCall> calls(4);
    std::vector<at::Tensor> outputs(4), gradients(4);
    run_ranks(4, [&](Communicator& world) {
      const int r = world.rank(), d = r / 2, t = r % 2;
      auto tensor = world.group(std::vector<int>{2 * d, 2 * d + 1}), data = world.group(std::vector<int>{t, t + 2});
      TestCall& call = calls[size_t(r)];
      prepare(call);
      call.option = find_height(options);
      call.tensor_degree = 2;
      call.tensor_index = t;
      call.tensor = tensor.get();
      call.data = data.get();
      auto part = [&](const at::Tensor& x) {
        return channels_last(x.narrow(0, d * first_shard, d ? 3 - first_shard : first_shard).narrow(2, 3 * t, 3))
            .clone();
      };
      outputs[size_t(r)] = norm.forward(call, std::vector{part(input)});
      gradients[size_t(r)] = norm.backward(call, part(gradient))[0];
    });
    auto whole_of = [](const std::vector<at::Tensor>& x) {
      return at::cat({at::cat({x[0], x[1]}, 2), at::cat({x[2], x[3]}, 2)}, 0);
    };
    expect_near(whole_of(outputs), expected, "output");
    expect_near(whole_of(gradients), expected_gradient, "input gradient");
    for (int p : {0, 1}) {
      at::Tensor sum = at::zeros({4}, at::kDouble);
      for (TestCall& call : calls) sum += call.gradients.at(p);
      expect_near(sum, whole.gradients.at(p), "parameter gradient");
      for (TestCall& call : calls) EXPECT_TRUE(at::equal(call.buffers[size_t(p)], calls[0].buffers[size_t(p)]));
      expect_near(calls[0].buffers[size_t(p)], whole.buffers[size_t(p)], "running statistics");
    }
  }
}

TEST(Height, EvaluationCommunicatesWithNone) {
  const BatchNorm norm("norm", 4, {.residual = true});
  const auto options = norm.sharding_options(std::vector<Shape>{{4, 6, 5}, {4, 6, 5}}, 2);
  const at::Tensor input = random_tensor({3, 4, 6, 5}, 1), residual = random_tensor({3, 4, 6, 5}, 2);
  auto evaluate = [&](const ShardingOption* option, int degree, int index) {
    TestCall call;  // without a group that could communicate
    call.training = false;
    call.option = option;
    call.tensor_degree = degree;
    call.tensor_index = index;
    call.parameters = {random_tensor({4}, 3), random_tensor({4}, 4)};
    call.buffers = {random_tensor({4}, 5), at::full({4}, 2.0, at::kDouble)};
    return norm.forward(call, std::vector{shard_of(input, option ? kRows : Placement{}, degree, index),
                                          shard_of(residual, option ? kRows : Placement{}, degree, index)});
  };
  const ShardingOption* height = find_height(options);
  EXPECT_TRUE(at::equal(at::cat({evaluate(height, 2, 0), evaluate(height, 2, 1)}, 2), evaluate(nullptr, 1, 0)));
}

TEST(Height, OfferedOnlyWhereRowsDivide) {
  auto offers = [](const Layer& layer, std::vector<Shape> inputs, int degree) {
    return find_height(layer.sharding_options(inputs, degree)) != nullptr;
  };
  const Conv2d same("conv", {.in = 4, .out = 4, .kernel = 7, .padding = 3}),
      valid("conv", {.in = 4, .out = 4, .kernel = 3});
  EXPECT_TRUE(offers(same, {{4, 12, 5}}, 4));  // each worker has 3 rows and borrows 3 on each side
  EXPECT_FALSE(offers(same, {{4, 8, 5}}, 4));  // each worker has 2 rows: the kernel needs rows beyond the neighbours'
  EXPECT_FALSE(offers(same, {{4, 13, 5}}, 4));
  EXPECT_FALSE(offers(same, {{4, 12, 5}}, 1));
  EXPECT_FALSE(offers(valid, {{4, 10, 5}}, 2));  // 10 rows become 8
  const BatchNorm norm("norm", 5);
  EXPECT_TRUE(offers(norm, {{5, 6, 5}}, 2));
  EXPECT_FALSE(offers(norm, {{5, 6, 5}}, 4));
  EXPECT_FALSE(offers(norm, {{5}}, 5));
  const GlobalAvgPool mean("mean");
  EXPECT_TRUE(offers(mean, {{5, 6, 5}}, 3));
  EXPECT_FALSE(offers(mean, {{5, 6, 5}}, 4));
  // Windows that do not overlap need no borrowed rows and no messages.
  const Conv2d patches("conv", {.in = 4, .out = 4, .kernel = 4, .stride = 4});
  const auto options = patches.sharding_options(std::vector<Shape>{{4, 8, 8}}, 2);
  EXPECT_FALSE(find_height(options)->communicates_over_tensor_axis);
}

/// Convolutions computed directly, as a product, and with groups. Two steps add to the same gradients.
TEST(SplitBackward, ConvolutionsComputeTheSameBits) {
  for (Conv2dOptions o : {Conv2dOptions{.in = 4, .out = 8, .kernel = 3, .padding = 1},
                          Conv2dOptions{.in = 4, .out = 200, .kernel = 3, .padding = 1},
                          Conv2dOptions{.in = 8, .out = 8, .kernel = 3, .padding = 1, .groups = 4, .bias = false}})
    for (at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16}) {
      SCOPED_TRACE(::testing::Message() << o.out << " outputs, " << o.groups << " groups, " << c10::toString(type));
      LayerCase c{"conv", std::make_shared<Conv2d>("conv", o), {{o.in, 4, 5}}};
      ASSERT_TRUE(c.layer->splits_backward());
      TestCall plain, split;
      std::vector<std::vector<at::Tensor>> input_gradients(2);
      for (bool defer : {false, true}) {
        TestCall& call = defer ? split : plain;
        fill_call(call, c, 1);
        for (at::Tensor& p : call.parameters) p = channels_last(p.to(type));
        call.defer_parameters = defer;
        for (uint64_t step : {0, 1}) {
          const at::Tensor input = channels_last(random_tensor({3, o.in, 4, 5}, step).to(type));
          const at::Tensor output = c.layer->forward(call, std::vector{input});
          const at::Tensor gradient = channels_last(random_tensor(output.sizes(), step + 7).to(type));
          input_gradients[defer].push_back(c.layer->backward(call, gradient)[0]);
          EXPECT_EQ(call.gradients.empty(), defer && step == 0);
          if (defer) c.layer->backward_parameters(call);
        }
      }
      for (size_t step : {0, 1}) EXPECT_TRUE(at::equal(input_gradients[0][step], input_gradients[1][step]));
      ASSERT_EQ(split.gradients.size(), plain.parameters.size());
      for (auto& [i, gradient] : plain.gradients)
        EXPECT_TRUE(at::equal(split.gradients.at(i), gradient)) << "parameter " << i;
    }
}

}  // namespace
}  // namespace trireme::test_support
