// Compares Lstm with ATen's LSTM and its autograd, in double; its state from call to call; splits over workers.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "expect_close.h"
#include "layer_cases.h"
#include "support/ranks.h"
#include "trireme/error.h"
#include "trireme/layers/lstm.h"

namespace trireme::test_support {
namespace {

constexpr int64_t kRows = 3, kSteps = 5, kIn = 6, kHidden = 8;
constexpr double kTolerance = 1e-12;
enum { kH, kC };

struct Problem {
  explicit Problem(uint64_t seed, int64_t steps = kSteps)
      : input(random_tensor({kRows, steps, kIn}, seed)), weights(random_tensor({kRows, steps, kHidden}, seed + 1)) {
    int index = 0;
    for (const ParameterSpec& spec : Lstm("lstm", kIn, kHidden).parameters())
      parameters.push_back(random_tensor(spec.shape, seed + 10 + uint64_t(index++)) * 0.5);
    for (uint64_t s : {2, 3}) states.push_back(random_tensor({kRows, kHidden}, seed + s));
  }

  at::Tensor input, weights;  ///< weights: the output's gradient
  std::vector<at::Tensor> parameters, states;
};

/// ATen's results and gradients.
struct Expected {
  at::Tensor output, input_gradient;
  std::vector<at::Tensor> states, parameter_gradients;
};

Expected oracle(const Problem& p, bool stateful) {
  const at::Tensor input = p.input.clone().requires_grad_();
  std::vector<at::Tensor> leaves, as_matrices;
  for (const at::Tensor& parameter : p.parameters) {
    leaves.push_back(parameter.clone().requires_grad_());
    as_matrices.push_back(leaves.back().flatten(0, 1));  // PyTorch's shape: same values in the same order
  }
  std::vector<at::Tensor> first;
  for (const at::Tensor& state : p.states) first.push_back((stateful ? state : at::zeros_like(state)).unsqueeze(0));
  auto [output, h, c] =
      at::lstm(input, first, as_matrices, /*has_biases=*/true, /*num_layers=*/1, /*dropout=*/0, /*train=*/true,
               /*bidirectional=*/false, /*batch_first=*/true);
  (output * p.weights).sum().backward();
  Expected expected{output.detach(), input.grad(), {h.detach().squeeze(0), c.detach().squeeze(0)}, {}};
  for (const at::Tensor& leaf : leaves) expected.parameter_gradients.push_back(leaf.grad());
  return expected;
}

Lstm make(bool stateful) { return Lstm("lstm", kIn, kHidden, {.stateful = stateful}); }

void fill(TestCall& call, const Problem& p) {
  call.parameters = p.parameters;
  call.states = p.states;
}

class LstmTest : public ::testing::TestWithParam<bool> {};

TEST_P(LstmTest, EqualsATensLstmAndItsAutograd) {
  const bool stateful = GetParam();
  const Lstm layer = make(stateful);
  const Problem p(3);
  const Expected expected = oracle(p, stateful);
  TestCall call;
  fill(call, p);
  const at::Tensor output = layer.forward(call, {&p.input, 1});
  expect_close(output, expected.output, "output", kTolerance);
  expect_close(layer.backward(call, p.weights).at(0), expected.input_gradient, "input gradient", kTolerance);
  for (size_t i = 0; i < p.parameters.size(); ++i)
    expect_close(call.gradients.at(int(i)), expected.parameter_gradients[i], layer.parameters()[i].name, kTolerance);
  ASSERT_EQ(call.next_states.size(), stateful ? 2u : 0u);
  if (!stateful) return;
  expect_close(call.next_states.at(kH), expected.states[kH], "h", kTolerance);
  expect_close(call.next_states.at(kC), expected.states[kC], "c", kTolerance);
}

TEST_P(LstmTest, BackwardSplitsInTwo) {
  const Lstm layer = make(GetParam());
  const Problem p(4);
  TestCall whole, split;
  fill(whole, p);
  fill(split, p);
  ASSERT_TRUE(layer.splits_backward());
  split.defer_parameters = true;
  layer.forward(whole, {&p.input, 1});
  layer.forward(split, {&p.input, 1});
  const at::Tensor expected = layer.backward(whole, p.weights).at(0);
  EXPECT_TRUE(at::equal(layer.backward(split, p.weights).at(0), expected));
  EXPECT_TRUE(split.gradients.empty());
  layer.backward_parameters(split);
  for (auto& [i, gradient] : whole.gradients) EXPECT_TRUE(at::equal(split.gradients.at(i), gradient)) << i;
}

/// Each worker keeps its state over two calls.
TEST_P(LstmTest, WorkersByHiddenUnitEqualTheWholeLayer) {
  const bool stateful = GetParam();
  const Lstm layer = make(stateful);
  const Problem first(5), second(6);
  TestCall whole, whole_again;
  fill(whole, first);
  layer.forward(whole, {&first.input, 1});
  fill(whole_again, first);
  if (stateful) whole_again.states = {whole.next_states.at(kH), whole.next_states.at(kC)};
  const at::Tensor output = layer.forward(whole_again, {&second.input, 1});
  const at::Tensor input_gradient = layer.backward(whole_again, second.weights).at(0);

  const Shape sample{kSteps, kIn};
  for (int degree : {2, 4}) {
    SCOPED_TRACE(degree);
    const auto options = layer.sharding_options({&sample, 1}, degree);
    ASSERT_EQ(options.size(), 2u);
    const ShardingOption& option = options[1];
    EXPECT_EQ(option.name, "hidden");
    ASSERT_EQ(option.states.size(), stateful ? 2u : 0u);
    std::vector<TestCall> calls(static_cast<size_t>(degree));
    std::vector<at::Tensor> outputs(calls.size()), gradients(calls.size());
    run_ranks(degree, [&](Communicator& group) {
      const int rank = group.rank();
      TestCall& call = calls[size_t(rank)];
      call.option = &option;
      call.tensor = &group;
      call.tensor_degree = degree;
      call.tensor_index = rank;
      for (const at::Tensor& parameter : first.parameters)
        call.parameters.push_back(shard_of(parameter, Placement::shard(1), degree, rank));
      for (const at::Tensor& state : first.states)
        call.states.push_back(shard_of(state, Placement::shard(1), degree, rank));
      layer.forward(call, {&first.input, 1});
      if (stateful) call.states = {call.next_states.at(kH), call.next_states.at(kC)};
      outputs[size_t(rank)] = layer.forward(call, {&second.input, 1});
      gradients[size_t(rank)] = layer.backward(call, shard_of(second.weights, option.output, degree, rank)).at(0);
    });
    expect_close(assemble(outputs, option.output), output, "output", kTolerance);
    expect_close(assemble(gradients, option.input_gradients[0]), input_gradient, "input gradient", kTolerance);
    auto of_all = [&](auto part) {
      std::vector<at::Tensor> parts;
      for (TestCall& call : calls) parts.push_back(part(call));
      return at::cat(parts, 1);
    };
    for (int i = 0; i < 4; ++i)
      expect_close(of_all([&](TestCall& call) { return call.gradients.at(i); }), whole_again.gradients.at(i),
                   "parameter", kTolerance);
    if (!stateful) continue;
    for (int s : {kH, kC})
      expect_close(of_all([&](TestCall& call) { return call.next_states.at(s); }), whole_again.next_states.at(s),
                   "state", kTolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Stateful, LstmTest, ::testing::Bool());

TEST(Lstm, FiveCallsWithStateEqualOneLongSequence) {
  constexpr int64_t kCalls = 5;
  const Problem p(7, kCalls * kSteps);
  const Expected expected = oracle(p, true);
  const Lstm layer = make(true);
  TestCall call;
  fill(call, p);
  std::vector<at::Tensor> outputs;
  for (int64_t k = 0; k < kCalls; ++k) {
    const at::Tensor part = p.input.narrow(1, k * kSteps, kSteps);
    outputs.push_back(layer.forward(call, {&part, 1}));
    call.states = {call.next_states.at(kH), call.next_states.at(kC)};
  }
  expect_close(at::cat(outputs, 1), expected.output, "output", kTolerance);
  expect_close(call.states[kH], expected.states[kH], "h", kTolerance);
  expect_close(call.states[kC], expected.states[kC], "c", kTolerance);
}

TEST(Lstm, RecomputingLeavesTheStateAlone) {
  const Problem p(8);
  const Lstm layer = make(true);
  TestCall call;
  fill(call, p);
  const at::Tensor first = layer.forward(call, {&p.input, 1});
  call.next_states.clear();
  call.recomputing = true;
  EXPECT_TRUE(at::equal(layer.forward(call, {&p.input, 1}), first));
  EXPECT_TRUE(call.next_states.empty());
}

TEST(Lstm, KeepsItsCellInFloatUnderBfloat16) {
  const Problem p(9);
  const Lstm layer = make(true);
  TestCall call;
  fill(call, p);
  for (at::Tensor& parameter : call.parameters) parameter = parameter.to(at::kBFloat16);
  call.states = {p.states[kH].to(at::kBFloat16), p.states[kC].to(at::kFloat)};
  const at::Tensor input = p.input.to(at::kBFloat16);
  layer.forward(call, {&input, 1});
  EXPECT_EQ(call.next_states.at(kH).scalar_type(), at::kBFloat16);
  EXPECT_EQ(call.next_states.at(kC).scalar_type(), at::kFloat);
}

/// With a projection, every worker has the whole h and its units of c; both are kept over two calls.
TEST(Lstm, AProjectingLayersWorkersCarryTheWholeH) {
  constexpr int64_t kProjection = 3;
  const Lstm layer("lstm", kIn, kHidden, {.stateful = true, .projection = kProjection});
  const at::Tensor inputs[] = {random_tensor({kRows, kSteps, kIn}, 1), random_tensor({kRows, kSteps, kIn}, 2)};
  const at::Tensor weights = random_tensor({kRows, kSteps, kProjection}, 3);
  std::vector<at::Tensor> parameters;
  for (const ParameterSpec& spec : layer.parameters())
    parameters.push_back(random_tensor(spec.shape, 10 + parameters.size()) * 0.5);
  const std::vector<at::Tensor> states{random_tensor({kRows, kProjection}, 4), random_tensor({kRows, kHidden}, 5)};

  // Expected: both calls as one sequence, by ATen. The gradient of the second part does not reach the first.
  std::vector<at::Tensor> matrices;
  for (const at::Tensor& p : parameters) matrices.push_back(p.dim() == 3 || p.size(0) == 4 ? p.flatten(0, 1) : p);
  const std::vector<at::Tensor> first{states[kH].unsqueeze(0), states[kC].unsqueeze(0)};
  const auto expected = at::lstm(at::cat({inputs[0], inputs[1]}, 1), first, matrices, true, 1, 0, true, false, true);
  const at::Tensor &whole = std::get<0>(expected), &h = std::get<1>(expected), &c = std::get<2>(expected);

  const Shape sample{kSteps, kIn};
  TestCall single;
  for (int degree : {1, 2, 4}) {
    SCOPED_TRACE(degree);
    const auto options = layer.sharding_options({&sample, 1}, degree);
    const ShardingOption& option = options.back();
    EXPECT_EQ(option.output, Placement::replicate());
    EXPECT_EQ(option.states[kH], Placement::replicate());
    std::vector<TestCall> calls(static_cast<size_t>(degree));
    std::vector<at::Tensor> gradients(calls.size());
    run_ranks(degree, [&](Communicator& group) {
      const int rank = group.rank();
      TestCall& call = calls[size_t(rank)];
      call.option = &option;
      call.tensor = &group;
      call.tensor_degree = degree;
      call.tensor_index = rank;
      for (size_t i = 0; i < parameters.size(); ++i)
        call.parameters.push_back(shard_of(parameters[i], option.parameters[i], degree, rank));
      for (size_t i = 0; i < states.size(); ++i)
        call.states.push_back(shard_of(states[i], option.states[i], degree, rank));
      layer.forward(call, {&inputs[0], 1});
      call.states = {call.next_states.at(kH), call.next_states.at(kC)};
      expect_close(layer.forward(call, {&inputs[1], 1}), whole.narrow(1, kSteps, kSteps), "output", kTolerance);
      gradients[size_t(rank)] = layer.backward(call, weights).at(0);
      expect_close(call.next_states.at(kH), h.squeeze(0), "h", kTolerance);
    });
    std::vector<at::Tensor> cells;
    for (TestCall& call : calls) cells.push_back(call.next_states.at(kC));
    expect_close(at::cat(cells, 1), c.squeeze(0), "c", kTolerance);
    if (degree == 1) {
      single = std::move(calls[0]);
      single.states = {gradients[0]};
      continue;
    }
    expect_close(assemble(gradients, Placement::partial()), single.states[0], "input gradient", kTolerance);
    for (size_t i = 0; i < parameters.size(); ++i) {
      std::vector<at::Tensor> parts;
      for (TestCall& call : calls) parts.push_back(call.gradients.at(int(i)));
      expect_close(assemble(parts, option.parameter_gradients[i]), single.gradients.at(int(i)), "parameter",
                   kTolerance);
    }
  }
}

/// Compares with each sentence alone, without its padding.
TEST(Lstm, PaddingIsNotRead) {
  for (bool reverse : {false, true})
    for (int64_t projection : {0, 3}) {
      SCOPED_TRACE(::testing::Message() << (reverse ? "reverse" : "forward") << ", projection " << projection);
      const Lstm packed("lstm", kIn, kHidden, {.projection = projection, .padding = true, .reverse = reverse});
      const Lstm plain("lstm", kIn, kHidden, {.projection = projection, .reverse = reverse});
      const at::Tensor input = random_tensor({kRows, kSteps, kIn}, 1);
      const at::Tensor weights = random_tensor({kRows, kSteps, projection > 0 ? projection : kHidden}, 2);
      at::Tensor tokens = at::ones({kRows, kSteps}, at::kLong);
      TestCall call, by_sentence;
      for (const ParameterSpec& spec : packed.parameters())
        call.parameters.push_back(random_tensor(spec.shape, 10 + call.parameters.size()));
      by_sentence.parameters = call.parameters;
      for (int64_t row = 0; row < kRows; ++row) tokens[row].slice(0, row + 2).fill_(0);
      call.wanted_inputs = {true, false};
      const at::Tensor output = packed.forward(call, std::vector{input, tokens});
      const std::vector<at::Tensor> gradients = packed.backward(call, weights);
      EXPECT_FALSE(gradients.at(1).defined());
      for (int64_t row = 0; row < kRows; ++row) {
        auto sentence = [&](const at::Tensor& t) { return t.narrow(0, row, 1).slice(1, 0, row + 2); };
        auto rest = [&](const at::Tensor& t) { return t[row].slice(0, row + 2); };
        const at::Tensor words = sentence(input);
        expect_close(sentence(output), plain.forward(by_sentence, {&words, 1}), "output", kTolerance);
        expect_close(sentence(gradients[0]), plain.backward(by_sentence, sentence(weights)).at(0), "input gradient",
                     kTolerance);
        EXPECT_EQ(rest(output).abs().max().item<double>(), 0);
        EXPECT_EQ(rest(gradients[0]).abs().max().item<double>(), 0);
      }
      for (auto& [i, gradient] : by_sentence.gradients)
        expect_close(call.gradients.at(i), gradient, "parameter", kTolerance);
    }
}

TEST(Lstm, NamesTheProjectionAndTheSecondDirection) {
  const Lstm layer("rnn.1", kIn, kHidden, {.module = "rnn", .index = 1, .projection = 2, .reverse = true});
  EXPECT_EQ(layer.parameters()[4].name, "rnn.weight_hr_l1_reverse");
  EXPECT_EQ(layer.parameters()[4].shape, (Shape{2, kHidden}));
  EXPECT_EQ(layer.parameters()[1].shape, (Shape{4, kHidden, 2}));
  const Shape sample{kSteps, kIn};
  EXPECT_EQ(layer.forward_flops({&sample, 1}), 2.0 * 5 * (32 * 6 + 32 * 2 + 8 * 2));
  EXPECT_THROW(Lstm("rnn", kIn, kHidden, {.stateful = true, .reverse = true}), Error);
  EXPECT_THROW(Lstm("rnn", kIn, kHidden, {.projection = kHidden}), Error);
}

TEST(Lstm, NamesParametersAsPyTorchDoes) {
  const Lstm layer("rnn.1", kIn, kHidden, {.module = "rnn", .index = 1});
  const char* names[] = {"rnn.weight_ih_l1", "rnn.weight_hh_l1", "rnn.bias_ih_l1", "rnn.bias_hh_l1"};
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(layer.parameters()[i].name, names[i]);
  const Shape sample{kSteps, kIn};
  EXPECT_EQ(layer.forward_flops({&sample, 1}), 2.0 * 5 * (32 * 6 + 32 * 8));
}

}  // namespace
}  // namespace trireme::test_support
