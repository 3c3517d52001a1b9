// The memory that a layer states for a call (Layer::memory) is the memory that calls really hold, for every kind of
// layer and every way to split it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "cost/measured_call.h"
#include "model/layer_cases.h"
#include "support/ranks.h"
#include "trireme/layers/batch_norm.h"
#include "trireme/layers/first_row.h"
#include "trireme/layers/lstm.h"
#include "trireme/layers/max_pool_indices.h"
#include "zoo/zoo.h"

namespace trireme::test_support {
namespace {

constexpr int64_t kSamples = 48;
constexpr double kTolerance = 0.05;
constexpr int kDevice = 77;       ///< device of the memory accounting; used only here
constexpr int64_t kScalars = 64;  ///< bytes of numbers that ATen wraps in tensors

void expect_near(int64_t declared, int64_t measured, const char* what) {
  EXPECT_LE(std::abs(double(declared - measured)), kTolerance * double(measured) + kScalars)
      << what << ": declared " << declared << ", measured " << measured;
}

/// True if oneDNN allocates its own memory in this layer's kernels; its amount is not known in advance.
bool uses_onednn(const Layer& layer, Precision precision) {
  const std::string_view kind = layer.kind();
  if (kind == "conv2d" || kind == "conv_transpose2d") return true;
  return precision == Precision::bf16 &&
         (kind == "linear" || kind == "attention" || kind == "additive_attention" || kind == "lstm" ||
          kind == "stateful_lstm" || kind == "masked_mean_sequence" || kind == "sampled_softmax");
}

void expect_kept(const LayerMemory& declared, const LayerMemory& measured) {
  expect_near(declared.output, measured.output, "output");
  EXPECT_EQ(declared.output_shares_input, measured.output_shares_input);
  expect_near(declared.saved, measured.saved, "saved");
  EXPECT_EQ(declared.keeps_input, measured.keeps_input);
  EXPECT_EQ(declared.keeps_output, measured.keeps_output);
  EXPECT_EQ(declared.input_gradients, measured.input_gradients);
}

void expect_peaks(const LayerMemory& declared, const MeasuredCall& measured, bool at_least) {
  const int64_t gradients =
      std::accumulate(declared.input_gradients.begin(), declared.input_gradients.end(), int64_t{0});
  const int64_t forward = declared.output + declared.saved + declared.forward_workspace;
  const int64_t backward = gradients + declared.backward_workspace;
  if (at_least) {
    EXPECT_LE(double(forward), (1 + kTolerance) * double(measured.forward_peak) + kScalars);
    EXPECT_LE(double(backward), (1 + kTolerance) * double(measured.backward_peak) + kScalars);
    return;
  }
  expect_near(forward, measured.forward_peak, "peak of forward");
  expect_near(backward, measured.backward_peak, "peak of backward");
}

/// For options that communicate: each worker is a thread. Peaks are not compared, because messages take memory too.
void compare_communicating(const CallShapes& call, const CallInputs& inputs) {
  run_ranks(call.tensor, [&](Communicator& group) {
    const MeasuredCall measured = measure_call(call, inputs, &group, kDevice + group.rank());
    LayerMemory declared = call.layer->memory(call);
    if (call.layer->kind() == "sampled_softmax") {  // a random number of the drawn classes lies on a worker
      EXPECT_GE(declared.saved, measured.memory.saved);
      declared.saved = measured.memory.saved;
    }
    expect_kept(declared, measured.memory);
  });
}

CallInputs inputs_of(const LayerCase& c, Precision precision) {
  CallInputs inputs{.shapes = c.inputs, .elements = {}, .wanted = {}};
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const bool is_position = c.layer->kind() == "max_unpool2d" && i == 1;
    const bool is_integer = c.layer->integers_below(c.inputs, i) || is_position;
    const bool is_target = c.is_loss() && i == 1;
    inputs.elements.push_back(is_position  ? 1
                              : is_integer ? 8
                              : is_target  ? master_size(precision)
                                           : compute_size(precision));
    inputs.wanted.push_back(!is_integer && !is_target);
  }
  return inputs;
}

/// The cases of the layers' tests, and kinds that are tested in another form.
std::vector<LayerCase> all_cases() {
  std::vector<LayerCase> cases = layer_cases();
  cases.push_back({"first_row", std::make_shared<const FirstRow>("layer", 2, 12), {{8, 12}}});
  cases.push_back({"max_pool_indices", std::make_shared<const MaxPoolIndices>("layer", Size2d(2)), {{8, 4, 6}}});
  cases.push_back(
      {"stateful_lstm", std::make_shared<const Lstm>("layer", 6, 8, LstmOptions{.stateful = true}), {{5, 6}}});
  cases.push_back({"stateful_lstm_projection",
                   std::make_shared<const Lstm>("layer", 6, 8, LstmOptions{.stateful = true, .projection = 4}),
                   {{5, 6}}});
  const BatchNormOptions add_relu{.relu = true, .residual = true};
  cases.push_back(
      {"norm_add_relu_sequence", std::make_shared<const BatchNorm>("layer", 8, add_relu), {{8, 12}, {8, 12}}});
  return cases;
}

class StatedMemory : public ::testing::TestWithParam<LayerCase> {
 protected:
  void SetUp() override { install_memory_accounting(); }
};

TEST_P(StatedMemory, EqualsTheMemoryOfCalls) {
  const LayerCase& c = GetParam();
  for (Precision precision : {Precision::fp32, Precision::bf16}) {
    const CallInputs inputs = inputs_of(c, precision);
    for (int degree : {1, 2})
      for (const ShardingOption& option : c.layer->sharding_options(c.inputs, degree)) {
        SCOPED_TRACE(fmt::format("{} {} x {}", name_of(precision), option.name, degree));
        const CallShapes call = call_shapes(*c.layer, inputs, option, degree, kSamples, precision);
        if (option.communicates_over_tensor_axis) {
          compare_communicating(call, inputs);
          continue;
        }
        const LayerMemory declared = call.layer->memory(call);
        const MeasuredCall measured = measure_call(call, inputs, nullptr, kDevice);
        expect_kept(declared, measured.memory);
        expect_peaks(declared, measured, uses_onednn(*c.layer, precision));
      }
  }
}

TEST(StatedMemoryCases, AreAllOfTheZoo) {
  const std::vector<ModelSpec> samples{{"", {3, 64, 64}, 10, {}},
                                       {"", {1, 28, 28}, 10, {}},
                                       {"", {3, 299, 299}, 10, {}},
                                       {"", {16}, 2, {}, LearningTask::classification, {}, 100},
                                       {"", {16}, 10000, {}, LearningTask::language, {16}, 10000},
                                       {"", {32}, 100, {}, LearningTask::translation, {16}, 100},
                                       {"", {3, 64, 64}, 10, {}, LearningTask::segmentation, {64, 64}}};
  std::set<std::string> measured;
  for (const LayerCase& c : all_cases()) measured.emplace(c.layer->kind());
  for (const std::string& name : model_names()) {
    int built = 0;
    for (ModelSpec spec : samples) {
      if (!does(name, spec.task, spec.vocabulary > 0)) continue;
      spec.name = name;
      try {
        const Model model = make_model(spec);
        ++built;
        for (const Node& node : model.nodes()) {
          if (!node.layer) continue;
          EXPECT_TRUE(measured.contains(std::string(node.layer->kind()))) << node.layer->kind() << " has no case here";
        }
      } catch (const Error&) {  // the model does not take these samples
      }
    }
    EXPECT_GT(built, 0) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, StatedMemory, ::testing::ValuesIn(all_cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace trireme::test_support
