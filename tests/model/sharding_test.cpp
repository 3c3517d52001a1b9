// Compares every sharding option of every layer with the unsharded layer. Workers are threads that hold shards made by
// the test.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "expect_close.h"
#include "layer_cases.h"
#include "support/ranks.h"

namespace trireme::test_support {
namespace {

constexpr uint64_t kSeed = 23;
constexpr double kTolerance = 1e-11;

/// The results of one worker.
struct Result {
  at::Tensor output;
  std::vector<at::Tensor> input_gradients, parameter_gradients, buffers;
  std::map<std::string, double> metrics;
};

Result run_worker(const LayerCase& c, const ShardingOption& option, int degree, int index, Communicator& group,
                  const std::vector<at::Tensor>& inputs, const at::Tensor& output, const at::Tensor& weights) {
  TestCall call;
  fill_call(call, c, kSeed);
  call.option = &option;
  call.tensor_degree = degree;
  call.tensor_index = index;
  call.tensor = &group;
  call.output_box = box_of(output, option.output, degree, index);
  for (size_t i = 0; i < call.parameters.size(); ++i)
    call.parameters[i] = shard_of(call.parameters[i], option.parameters[i], degree, index);
  for (size_t i = 0; i < call.buffers.size(); ++i)
    call.buffers[i] = shard_of(call.buffers[i], option.buffers[i], degree, index);
  std::vector<at::Tensor> shards;
  for (size_t i = 0; i < inputs.size(); ++i) shards.push_back(shard_of(inputs[i], option.inputs[i], degree, index));

  Result result;
  result.output = c.layer->forward(call, shards);
  // The gradient of a Partial value is Replicate.
  result.input_gradients = c.layer->backward(call, shard_of(weights, option.output, degree, index));
  for (size_t i = 0; i < call.parameters.size(); ++i) result.parameter_gradients.push_back(call.gradients.at(int(i)));
  result.buffers = call.buffers;
  result.metrics = call.metrics;
  return result;
}

/// Every worker reports the same value; if the output is Partial, the values add up.
void expect_metrics(const std::vector<Result>& results, const ShardingOption& option,
                    const std::map<std::string, double>& expected) {
  std::map<std::string, double> sums;
  for (const Result& r : results) {
    for (const auto& [name, value] : r.metrics)
      sums[name] += option.output.is_partial() ? value : value / double(results.size());
    if (!option.output.is_partial()) {
      EXPECT_EQ(r.metrics, results[0].metrics);
    }
  }
  ASSERT_EQ(sums.size(), expected.size());
  for (const auto& [name, value] : expected)
    EXPECT_NEAR(sums.at(name), value, kTolerance * std::max(1.0, std::abs(value))) << name;
}

template <class Part>
at::Tensor gather(const std::vector<Result>& results, const Placement& placement, const Part& part) {
  std::vector<at::Tensor> parts;
  for (const Result& r : results) parts.push_back(part(r));
  return assemble(parts, placement);
}

class Sharding : public ::testing::TestWithParam<LayerCase> {};

TEST_P(Sharding, EveryOptionEqualsTheWholeLayer) {
  const LayerCase& c = GetParam();
  ASSERT_EQ(c.layer->sharding_options(c.inputs, 1).size(), 1u);
  std::vector<at::Tensor> inputs = random_inputs(c, kSeed);
  TestCall whole;
  fill_call(whole, c, kSeed);
  at::Tensor output = c.layer->forward(whole, inputs);
  at::Tensor weights = random_tensor(output.sizes(), kSeed + 9);
  std::vector<at::Tensor> input_gradients = c.layer->backward(whole, weights);

  for (int degree : {2, 3, 4, 8}) {
    auto options = c.layer->sharding_options(c.inputs, degree);
    ASSERT_EQ(options.at(0).name, "replicate");
    if (degree == 2 || degree == 4) {
      EXPECT_GT(options.size(), 1u) << "every case has a share of work to give at " << degree;
    }
    for (const ShardingOption& option : options) {
      SCOPED_TRACE(option.name + " x " + std::to_string(degree));
      ASSERT_EQ(option.inputs.size(), inputs.size());
      ASSERT_EQ(option.parameters.size(), whole.parameters.size());
      ASSERT_EQ(option.buffers.size(), whole.buffers.size());
      std::vector<Result> results(static_cast<size_t>(degree));
      run_ranks(degree, [&](Communicator& group) {
        results[size_t(group.rank())] = run_worker(c, option, degree, group.rank(), group, inputs, output, weights);
      });
      expect_close(gather(results, option.output, [](const Result& r) { return r.output; }), output, "output",
                   kTolerance);
      for (size_t i = 0; i < inputs.size(); ++i)
        if (input_gradients[i].defined())
          expect_close(
              gather(results, option.input_gradients[i], [&](const Result& r) { return r.input_gradients[i]; }),
              input_gradients[i], "input gradient " + std::to_string(i), kTolerance);
      for (size_t i = 0; i < whole.parameters.size(); ++i)
        expect_close(
            gather(results, option.parameter_gradients[i], [&](const Result& r) { return r.parameter_gradients[i]; }),
            whole.gradients.at(int(i)), "parameter gradient " + std::to_string(i), kTolerance);
      for (size_t i = 0; i < whole.buffers.size(); ++i)
        expect_close(gather(results, option.buffers[i], [&](const Result& r) { return r.buffers[i]; }),
                     whole.buffers[i], "buffer " + std::to_string(i), kTolerance);
      expect_metrics(results, option, whole.metrics);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, Sharding, ::testing::ValuesIn(layer_cases()),
                         [](const auto& info) { return info.param.name; });

/// Splits the batch unevenly over data shards; a shard may be empty.
class DataShards : public ::testing::TestWithParam<std::tuple<std::string, std::vector<int64_t>>> {};

TEST_P(DataShards, GlobalBatchNormAndDropoutEqualOneDevice) {
  auto [name, shares] = GetParam();
  LayerCase c;
  for (const LayerCase& candidate : layer_cases())
    if (candidate.name == name) c = candidate;
  int64_t batch = 0;
  for (int64_t share : shares) batch += share;
  std::vector<at::Tensor> inputs = random_inputs(c, kSeed, batch);
  TestCall whole;
  fill_call(whole, c, kSeed);
  whole.micro_batch_samples = batch;
  at::Tensor output = c.layer->forward(whole, inputs);
  at::Tensor weights = random_tensor(output.sizes(), kSeed + 9);
  std::vector<at::Tensor> input_gradients = c.layer->backward(whole, weights);

  std::vector<Result> results(shares.size());
  run_ranks(int(shares.size()), [&](Communicator& group) {
    auto rank = size_t(group.rank());
    int64_t first = 0;
    for (size_t r = 0; r < rank; ++r) first += shares[r];
    TestCall call;
    fill_call(call, c, kSeed);
    call.first_sample += first;
    call.micro_batch_samples = batch;
    call.batch_norm = BatchNormScope::global;
    call.data = &group;
    std::vector<at::Tensor> local;
    for (const at::Tensor& x : inputs) local.push_back(channels_last(x.narrow(0, first, shares[rank])));
    results[rank].output = c.layer->forward(call, local);
    results[rank].input_gradients = c.layer->backward(call, channels_last(weights.narrow(0, first, shares[rank])));
    for (size_t i = 0; i < call.parameters.size(); ++i)
      results[rank].parameter_gradients.push_back(call.gradients.at(int(i)));
    results[rank].buffers = call.buffers;
  });
  const Placement by_sample = Placement::shard(0);
  expect_close(gather(results, by_sample, [](const Result& r) { return r.output; }), output, "output", kTolerance);
  for (size_t i = 0; i < inputs.size(); ++i)
    expect_close(gather(results, by_sample, [&](const Result& r) { return r.input_gradients[i]; }), input_gradients[i],
                 "input", kTolerance);
  for (size_t i = 0; i < whole.parameters.size(); ++i)
    expect_close(gather(results, Placement::partial(), [&](const Result& r) { return r.parameter_gradients[i]; }),
                 whole.gradients.at(int(i)), "parameter", kTolerance);
  for (const Result& r : results)
    for (size_t i = 0; i < whole.buffers.size(); ++i)
      expect_close(r.buffers[i], whole.buffers[i], "running statistics", kTolerance);
}

INSTANTIATE_TEST_SUITE_P(Layers, DataShards,
                         ::testing::Combine(::testing::Values("norm", "norm_relu", "norm_add_relu", "norm_features",
                                                              "norm_sequence", "dropout", "dropout_features",
                                                              "dropout_sequence", "drop_samples", "drop_channels",
                                                              "attention_dropout"),
                                            ::testing::Values(std::vector<int64_t>{2, 1}, std::vector<int64_t>{3, 0},
                                                              std::vector<int64_t>{2, 2, 1})));

}  // namespace
}  // namespace trireme::test_support
