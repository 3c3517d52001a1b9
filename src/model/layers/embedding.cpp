#include "trireme/layers/embedding.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/devices/device.h"
#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"

namespace trireme {
namespace {

/// Saved tensors. The output's gradient is saved only if parameters are deferred.
enum EmbeddingSaved { kEmbeddingIndices, kEmbeddingOutputGradient };

/// Adds row i of `gradient` [n, width] to row index[i] - first of `target` [rows, width]; skips rows outside. Each
/// row's sum is computed in Sum, in the order of i, before it is added to the target, so a bfloat16 target is rounded
/// once. Skips `padding`.
template <class Target, class Sum>
void add_rows(const at::Tensor& target, const at::Tensor& gradient, const at::Tensor& indices, int64_t first,
              int64_t padding) {
  const int64_t rows = target.size(0), width = target.size(1), n = indices.numel();
  const int64_t* index = indices.data_ptr<int64_t>();
  const Sum* from = gradient.data_ptr<Sum>();
  Target* to = target.data_ptr<Target>();
  std::vector<int64_t> order;
  for (int64_t i = 0; i < n; ++i)
    if (index[i] >= first && index[i] < first + rows && index[i] != padding) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return index[a] < index[b]; });
  std::vector<Sum> sum(static_cast<size_t>(width));
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    std::fill(sum.begin(), sum.end(), Sum(0));
    for (end = begin; end < order.size() && index[order[end]] == index[order[begin]]; ++end) {
      const Sum* row = from + order[end] * width;
      for (int64_t j = 0; j < width; ++j) sum[size_t(j)] += row[j];
    }
    Target* row = to + (index[order[begin]] - first) * width;
    for (int64_t j = 0; j < width; ++j) row[j] = Target(Sum(row[j]) + sum[size_t(j)]);
  }
}

void check_rows(const Layer& layer, const at::Tensor& indices, int64_t rows) {
  const int64_t *index = indices.data_ptr<int64_t>(), n = indices.numel();
  for (int64_t i = 0; i < n; ++i)
    if (index[i] < 0 || index[i] >= rows)
      fail_shape(layer, fmt::format("index {}", index[i]),
                 fmt::format("a table of {} rows has rows 0 to {}", rows, rows - 1),
                 "check the dataset's tokens or the size of the model's vocabulary");
}

/// add_rows for a target that the host cannot read. Indices outside of the target go to one extra row, which the
/// operator skips.
void add_rows_on_device(const at::Tensor& target, const at::Tensor& gradient, const at::Tensor& indices, int64_t first,
                        int64_t rows, int64_t padding) {
  const int64_t local = target.size(0);
  at::Tensor sums;
  if (local == rows) {
    sums = at::embedding_dense_backward(gradient, indices, local, padding, /*scale_grad_by_freq=*/false);
  } else {
    const at::Tensor own = indices - first;
    at::Tensor skipped = at::logical_or(own.lt(0), own.ge(local));
    if (padding >= 0) skipped.logical_or_(indices.eq(padding));
    sums = at::embedding_dense_backward(gradient, own.masked_fill(skipped, local), local + 1, /*padding_idx=*/local,
                                        /*scale_grad_by_freq=*/false)
               .narrow(0, 0, local);
  }
  target.add_(sums);
}

}  // namespace

Embedding::Embedding(std::string name, int64_t rows, int64_t width, EmbeddingOptions options)
    : Layer(std::move(name)), rows_(rows), width_(width), options_(options) {}

std::vector<ParameterSpec> Embedding::parameters() const {
  return {{name() + ".weight", {rows_, width_}, Init::normal(0, options_.deviation)}};
}

Shape Embedding::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  Shape shape = inputs[0];
  shape.push_back(width_);
  return shape;
}

std::vector<ShardingOption> Embedding::sharding_options(std::span<const Shape> inputs, int degree) const {
  std::vector<ShardingOption> options{replicate_option(1, 1)};
  if (degree == 1) return options;
  const Placement whole = Placement::replicate(), sum = Placement::partial();
  const Placement rows = Placement::shard(0), columns = Placement::shard(1), sequence = Placement::shard(1);
  if (rows_ % degree == 0)
    options.push_back({.name = "vocabulary",
                       .inputs = {whole},
                       .output = sum,
                       .input_gradients = {whole},
                       .parameters = {rows},
                       .parameter_gradients = {rows}});
  if (width_ % degree == 0)
    options.push_back({.name = "hidden",
                       .inputs = {whole},
                       .output = Placement::shard(int(inputs[0].size()) + 1),
                       .input_gradients = {whole},
                       .parameters = {columns},
                       .parameter_gradients = {columns},
                       .divides_work = true});
  if (!inputs[0].empty() && inputs[0][0] % degree == 0)
    options.push_back({.name = "sequence",
                       .inputs = {sequence},
                       .output = sequence,
                       .input_gradients = {sequence},
                       .parameters = {whole},
                       .parameter_gradients = {sum},
                       .divides_work = true});
  return options;
}

double Embedding::forward_flops(std::span<const Shape> inputs) const {
  return double(element_count(inputs[0])) * double(width_);  // a copy, counted as one operation per element
}

int64_t Embedding::first_row(const LayerCall& call) const {
  const bool by_vocabulary = call.option && call.option->output.is_partial();
  return by_vocabulary ? rows_ / call.tensor_degree * call.tensor_index : 0;
}

at::Tensor Embedding::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  const at::Tensor& weight = call.parameter(0);
  at::Tensor indices = inputs[0].to(at::kLong).contiguous();
  if (on_host(indices)) check_rows(*this, indices, rows_);
  call.saved = {indices};
  const int64_t first = first_row(call), local = weight.size(0);
  if (local == rows_) return at::embedding(weight, indices);
  at::Tensor held = at::logical_and(indices.ge(first), indices.lt(first + local));
  at::Tensor output = at::embedding(weight, (indices - first).clamp(0, local - 1));
  return output.masked_fill_(held.logical_not_().unsqueeze(-1), 0);
}

std::vector<at::Tensor> Embedding::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  if (call.defer_parameters) call.saved = {call.saved.at(kEmbeddingIndices), output_gradient};
  else add_weight_gradient(call, output_gradient);
  return {at::Tensor()};  // indices have no gradient
}

void Embedding::backward_parameters(LayerCall& call) const {
  add_weight_gradient(call, call.saved.at(kEmbeddingOutputGradient));
}

void Embedding::add_weight_gradient(LayerCall& call, const at::Tensor& output_gradient) const {
  if (!call.wants_gradient(0)) return;
  LayerCall::GradientTarget target = call.gradient_target(0);
  if (!target.accumulate) target.tensor.zero_();
  const at::Tensor& indices = call.saved.at(kEmbeddingIndices);
  const auto type = target.tensor.scalar_type();
  at::Tensor gradient = output_gradient.to(type == at::kDouble ? at::kDouble : at::kFloat).contiguous();
  if (!on_host(target.tensor))
    return add_rows_on_device(target.tensor, gradient, indices, first_row(call), rows_, options_.padding);
  if (type == at::kDouble)
    add_rows<double, double>(target.tensor, gradient, indices, first_row(call), options_.padding);
  else if (type == at::kFloat)
    add_rows<float, float>(target.tensor, gradient, indices, first_row(call), options_.padding);
  else add_rows<at::BFloat16, float>(target.tensor, gradient, indices, first_row(call), options_.padding);
}

LayerMemory Embedding::memory(const CallShapes& call) const {
  LayerMemory memory = keeping_input(call);
  memory.input_gradients = {0};
  if (call.option->output.is_partial()) memory.forward_workspace = 2 * call.inputs[0].bytes() + call.inputs[0].count();
  if (call.compute == 2) memory.backward_workspace = 4 * call.output.count();  // the output's gradient in float
  return memory;
}

/// Reads only the rows that it needs.
std::vector<OperatorWork> Embedding::work(const CallShapes& call, double flops, Pass pass) const {
  std::vector<OperatorWork> work = Layer::work(call, flops, pass);
  work[0].bytes = bytes_of(call.inputs) + double(call.output.bytes()) + double(call.output.bytes());
  return work;
}

std::string Embedding::to_onnx(OnnxWriter& w) const { return w.add("Gather", {w.parameter(0), w.in()}); }

void Embedding::to_script(ScriptWriter& w) const { w.result(script_call("embedding", {w.parameter(0), w.in()})); }

}  // namespace trireme
