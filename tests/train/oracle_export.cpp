// oracle_export FOLDER SAMPLES MODEL SHAPE CLASSES [OPTION=VALUE...]: exports a model in every form, for
// oracle_export.py. The arguments are those of oracle_step; MODEL may also be "images" or "sequences", models of layers
// that no named model has. FOLDER holds data.bin (float64 or int64) and, unless the weights are to be random,
// weights.pt. The program writes output.bin, a Predictor's output in double, and weights.safetensors, model.pt (double)
// and model.onnx.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/jit/serialization/import.h>

#include <filesystem>
#include <iostream>
#include <stdexcept>

#include "../support/raw_tensor.h"
#include "../support/spec_arguments.h"
#include "base/random.h"
#include "metrics/predictor.h"
#include "model/export/onnx.h"
#include "model/export/torchscript.h"
#include "model/weights/match.h"
#include "model/weights/read_weights.h"
#include "model/weights/safetensors.h"
#include "onnx_check.h"
#include "runtime/replicas/replicas.h"
#include "train/trained_weights.h"
#include "trireme/layers/activation.h"
#include "trireme/layers/adaptive_avg_pool2d.h"
#include "trireme/layers/add.h"
#include "trireme/layers/avg_pool2d.h"
#include "trireme/layers/batch_norm.h"
#include "trireme/layers/concat.h"
#include "trireme/layers/conv2d.h"
#include "trireme/layers/conv_transpose2d.h"
#include "trireme/layers/flatten.h"
#include "trireme/layers/group_norm.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/lstm.h"
#include "trireme/layers/max_pool2d.h"
#include "trireme/layers/max_pool_indices.h"
#include "trireme/layers/max_unpool2d.h"
#include "trireme/layers/mean_sequence.h"
#include "trireme/layers/softmax.h"
#include "trireme/layers/softmax_cross_entropy.h"
#include "trireme/layers/upsample2d.h"

namespace trireme::test_support {
namespace {

constexpr double kTolerance = 1e-9,
                 kSingleTolerance = 1e-5;  // for double and float32: rounding through up to 121 layers
constexpr uint64_t kSeed = 11;

/// Layers for images that no named model has, on images [4, 11, 14].
Model images_model() {
  ModelBuilder b("images");
  const NodeId data = b.input("data", {4, 11, 14}), target = b.input("target", {});
  NodeId x = b.layer<Conv2d>(
      {data}, "conv",
      Conv2dOptions{.in = 4, .out = 6, .kernel = {3, 5}, .stride = {1, 2}, .padding = {1, 2}, .groups = 2});
  x = b.layer<Activation>({b.layer<GroupNorm>({x}, "group_norm", 6, GroupNormOptions{.groups = 3, .epsilon = 1e-3})},
                          "silu", Function::silu);
  const NodeId pooled = b.layer<MaxPool2d>({x}, "pool", MaxPool2dOptions{.kernel = 2, .stride = 2});
  const NodeId where = b.layer<MaxPoolIndices>({x}, "where", 2);
  x = b.layer<MaxUnpool2d>({b.layer<Activation>({pooled}, "hardswish", Function::hardswish), where}, "unpool",
                           MaxUnpool2dOptions{.window = 2, .size = {11, 7}});
  x = b.layer<ConvTranspose2d>(
      {x}, "up",
      ConvTranspose2dOptions{
          .in = 6, .out = 4, .kernel = 3, .stride = {2, 1}, .padding = 1, .output_padding = {1, 0}, .groups = 2});
  x = b.layer<Activation>({x}, "relu6", Function::relu6);
  const NodeId ceiled =
      b.layer<MaxPool2d>({x}, "ceil", MaxPool2dOptions{.kernel = 3, .stride = 2, .padding = 1, .ceil_mode = true});
  const NodeId means = b.layer<AvgPool2d>(
      {x}, "means",
      AvgPool2dOptions{.kernel = 3, .stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false});
  const NodeId sum = b.layer<Add>({ceiled, means}, "sum", /*relu=*/true);
  const NodeId smooth =
      b.layer<Upsample2d>({sum}, "smooth", Upsample2dOptions{.mode = Interpolation::bilinear, .size = {9, 10}});
  const NodeId aligned = b.layer<Upsample2d>(
      {sum}, "aligned", Upsample2dOptions{.mode = Interpolation::bilinear, .size = {9, 10}, .align_corners = true});
  const NodeId coarse = b.layer<AdaptiveAvgPool2d>({smooth}, "adaptive", Size2d(4, 7));
  const NodeId counted =
      b.layer<AvgPool2d>({aligned}, "counted", AvgPool2dOptions{.kernel = 3, .stride = 2, .padding = 1});
  const NodeId repeated = b.layer<Upsample2d>({b.layer<AdaptiveAvgPool2d>({counted}, "one", 1)}, "repeated",
                                              Upsample2dOptions{.factor = {4, 7}});
  x = b.layer<Concat>({coarse, repeated}, "concat");
  x = b.layer<Activation>({b.layer<Softmax>({x}, "softmax", 1)}, "sigmoid", Function::sigmoid);
  x = b.layer<Linear>({b.layer<Flatten>({b.layer<Activation>({x}, "hardsigmoid", Function::hardsigmoid)}, "flatten")},
                      "fc", 8 * 4 * 7, 5);
  return b.finish(x, b.layer<SoftmaxCrossEntropy>({x, target}, "loss"));
}

/// Layers on sequences [6, 5]: a reversed LSTM, and slices.
Model sequences_model() {
  ModelBuilder b("sequences");
  const NodeId data = b.input("data", {6, 5}), target = b.input("target", {});
  NodeId x = b.layer<Lstm>({data}, "back", 5, 7, LstmOptions{.reverse = true});
  const NodeId parts = b.layer<Linear>({x}, "parts", 7, 3, LinearOptions{.parts = 2});
  x = b.layer<Linear>({b.layer<MeanSequence>({x}, "mean")}, "fc", 7, 3,
                      LinearOptions{.bias = false, .transposed = true});
  const NodeId norm =
      b.layer<BatchNorm>({b.layer<Linear>({b.layer<Flatten>({parts}, "flat")}, "fc2", 36, 3)}, "norm", 3);
  x = b.layer<Add>({x, norm}, "sum");
  return b.finish(x, b.layer<SoftmaxCrossEntropy>({x, target}, "loss"));
}

Model model_of(const ModelSpec& spec) {
  if (spec.name == "images") return images_model();
  if (spec.name == "sequences") return sequences_model();
  return make_model(spec);
}

/// Random weights that float32 can hold: initial values, shifted, so that none is a special value.
TensorMap random_weights(const Model& model) {
  TensorMap weights;
  const auto moved = [](const std::string& name, const at::Tensor& tensor, double least) {
    at::Tensor result = tensor.clone();
    const Philox random(random_key(kSeed, name));
    for (int64_t i = 0; i < result.numel(); ++i)
      result.data_ptr<float>()[i] += float(least + 0.1 * random.uniform(uint64_t(i)));
    return result.to(at::kDouble);
  };
  for (const ParameterSpec& spec : model.parameters())
    weights[spec.name] = moved(spec.name, drawn_parameter(spec, kSeed), -0.05);
  for (const BufferSpec& spec : model.buffers())
    weights[spec.name] = moved(spec.name, at::full(spec.shape, spec.initial, at::kFloat), 0);
  return weights;
}

/// Compares a TorchScript module loaded in C++ with a Predictor, also in float32.
void check_script(const std::filesystem::path& folder, const Model& model, const TensorMap& weights,
                  const at::Tensor& data, const at::Tensor& output) {
  const auto expect_same = [](const at::Tensor& actual, const at::Tensor& expected, double tolerance) {
    const double difference = (actual - expected).abs().max().item<double>();
    if (difference > tolerance * std::max(1.0, expected.abs().max().item<double>()))
      throw std::runtime_error(fmt::format("the module loaded in C++ differs by {}", difference));
  };
  const auto run = [&](const std::filesystem::path& path, const at::Tensor& input) {
    return torch::jit::load(path.string()).forward({input}).toTensor();
  };
  expect_same(run(folder / "model.pt", data), output, kTolerance);
  TensorMap single;
  for (const auto& [name, tensor] : weights) single[name] = tensor.to(at::kFloat);
  write_torchscript(folder / "single.pt", model, single);
  expect_same(run(folder / "single.pt", data.is_floating_point() ? data.to(at::kFloat) : data),
              Predictor(model, single, Precision::fp32).predict(data), kSingleTolerance);
}

void run(int count, char** args) {
  const std::filesystem::path folder = args[1];
  const std::string name = args[3];
  const bool named = name != "images" && name != "sequences";
  const ModelSpec spec = named ? parse_spec(args + 3, args + 6, args + count)
                               : ModelSpec{.name = name, .sample_shape = parse_shape(args[4]), .options = {}};
  const Model model = model_of(spec);
  const bool tokens = named && reads_tokens(name);
  Shape shape = spec.sample_shape;
  shape.insert(shape.begin(), std::atoll(args[2]));
  const at::Tensor data = read_raw(folder / "data.bin", shape, tokens ? at::kLong : at::kDouble);
  TensorMap weights = random_weights(model);
  if (const auto given = folder / "weights.pt"; std::filesystem::exists(given))
    for (auto& [name, tensor] : match_weights(model, read_weights(given).tensors, {}, given.string()).tensors)
      weights[name] = tensor.to(at::kDouble);
  const Weights file = weights_for_file(spec, model, weights);
  write_safetensors(folder / "weights.safetensors", file.tensors, file.metadata);
  write_torchscript(folder / "model.pt", model, weights);
  write_onnx(folder / "model.onnx", model, weights);
  check_onnx(folder / "model.onnx");
  const at::Tensor output = Predictor(model, weights, Precision::fp64).predict(data).contiguous();
  write_raw(folder / "output.bin", output);
  if (model.node(model.loss()).layer->kind() != "sampled_softmax") check_script(folder, model, weights, data, output);
}

}  // namespace
}  // namespace trireme::test_support

int main(int count, char** args) {
  if (count < 6) {
    std::cerr << "usage: oracle_export FOLDER SAMPLES MODEL SHAPE CLASSES [OPTION=VALUE...]\n";
    return 2;
  }
  try {
    trireme::test_support::run(count, args);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
