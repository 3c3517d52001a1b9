#include "model/import/script_layer.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "model/layers/common.h"

namespace trireme::torchscript {

ScriptLayer::ScriptLayer(std::string name, std::string kind, Script script)
    : AutogradLayer(std::move(name)), kind_(std::move(kind)), script_(std::move(script)) {}

Shape ScriptLayer::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, script_.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i] != script_.inputs[i].form.sample)
      fail_shape(*this, fmt::format("input sample shape {}", to_string(inputs[i])),
                 fmt::format("it was imported for {}", to_string(script_.inputs[i].form.sample)),
                 "import the file for samples of this shape");
  return script_.output.form.sample;
}

double ScriptLayer::flops_of(const Operator& op) const {
  double flops = 0;
  for (ValueId result : op.results)
    if (script_.values.at(result).from_data) flops += operator_flops(op, arguments_of(op), extent_of(result));
  return flops;
}

std::optional<int64_t> ScriptLayer::integers_below(std::span<const Shape>, size_t index) const {
  const ValueId id = script_.inputs.at(index).value;
  if (script_.values.at(id).is_floating()) return std::nullopt;
  for (const Operator& op : script_.operators) {
    const Argument *weight = op.find("weight"), *indices = op.find("indices");
    if (weight == nullptr || indices == nullptr || !weight->is_value() || indices->value != id) continue;
    return script_.values.at(weight->value).sizes.at(0);
  }
  return 0;
}

double ScriptLayer::forward_flops(std::span<const Shape>) const {
  double flops = 0;
  for (const Operator& op : script_.operators) flops += flops_of(op);
  return flops;
}

const Operator& ScriptLayer::heaviest() const {
  const Operator* found = &script_.operators.front();
  for (const Operator& op : script_.operators)
    if (flops_of(op) >= flops_of(*found)) found = &op;
  return *found;
}

Extent ScriptLayer::extent_of(ValueId id) const {
  const Value& value = script_.values.at(id);
  return {value.sizes, value.batch_dim, value.fold};
}

Extent ScriptLayer::extent_of(const Argument& argument) const {
  if (argument.is_value()) return extent_of(argument.value);
  const at::Tensor tensor = constant_tensor(argument, kProbeBatch);
  Extent extent{tensor.sizes().vec()};
  if (argument.repeat_dim >= 0) {
    extent.batch_dim = argument.repeat_dim;
    extent.fold = argument.constant.toTensor().size(argument.repeat_dim);
  }
  return extent;
}

std::vector<Extent> ScriptLayer::arguments_of(const Operator& op) const {
  std::vector<Extent> extents;
  for (const Argument* argument : tensors_of(op)) extents.push_back(extent_of(*argument));
  return extents;
}

int ScriptLayer::unsplit() const {
  for (size_t i = 0; i < script_.operators.size(); ++i) {
    const Operator& op = script_.operators[i];
    const std::vector<Extent> arguments = arguments_of(op);
    bool any = false;
    for (ValueId result : op.results) {
      const Extent extent = extent_of(result);
      for (int dim = 0; dim < extent.dims() && !any; ++dim) any = parts_needed(op, arguments, extent, dim).has_value();
    }
    if (!any) return int(i);
  }
  return -1;
}

bool ScriptLayer::demand(Parts& parts, const Argument& argument, int dim) const {
  const Extent extent = extent_of(argument);
  if (dim != kWhole && (extent.divisible(dim) % parts.degree != 0 || extent.divisible(dim) < parts.degree))
    return false;
  if (!argument.is_value()) return dim == kWhole || dim != argument.repeat_dim;
  const auto [known, is_new] = parts.of_values.try_emplace(argument.value, dim);
  return is_new || known->second == dim;
}

std::optional<ScriptLayer::Parts> ScriptLayer::parts_for(int layer_dim, int degree) const {
  const Form& form = script_.output.form;
  Parts parts{
      .of_values = {}, .of_arguments = std::vector<std::vector<int>>(script_.operators.size()), .degree = degree};
  const int extent = form.extent_of_layer_dim(layer_dim);
  if (form.extents.at(size_t(extent)) % degree != 0 || form.layer_dim_of(extent) != layer_dim) return std::nullopt;
  parts.of_values[script_.output.value] = form.dim_of(extent);
  for (size_t i = script_.operators.size(); i-- > 0;) {
    const Operator& op = script_.operators[i];
    int dim = kWhole;
    const ValueId* split = nullptr;
    for (const ValueId& result : op.results) {
      const auto known = parts.of_values.find(result);
      if (known == parts.of_values.end()) continue;
      if (split != nullptr && known->second != dim) return std::nullopt;
      dim = known->second;
      split = &result;
    }
    const auto tensors = tensors_of(op);
    std::vector<int> needed(tensors.size(), kWhole);
    if (split != nullptr && dim != kWhole) {
      const auto found = parts_needed(op, arguments_of(op), extent_of(*split), dim);
      if (!found) return std::nullopt;
      needed = *found;
    }
    for (size_t t = 0; t < tensors.size(); ++t)
      if (!demand(parts, *tensors[t], needed[t])) return std::nullopt;
    parts.of_arguments[i] = std::move(needed);
  }
  return parts;
}

std::optional<ShardingOption> ScriptLayer::option_for(ShardingOption like, int degree) const {
  const auto parts = parts_for(like.output.dim, degree);
  if (!parts) return std::nullopt;
  ShardingOption option{.name = like.name, .output = like.output, .divides_work = true};
  for (const Port& port : script_.inputs) {
    const auto part = parts->of_values.find(port.value);
    const int dim = part == parts->of_values.end() ? kWhole : part->second;
    const int layer_dim = dim == kWhole ? kWhole : port.form.layer_dim_of(port.form.extent_of(dim));
    if (dim != kWhole && layer_dim < 0) return std::nullopt;
    option.inputs.push_back(dim == kWhole ? Placement::replicate() : Placement::shard(layer_dim));
    option.input_gradients.push_back(dim == kWhole ? Placement::partial() : option.inputs.back());
  }
  for (ValueId id : script_.parameter_values) {
    const int dim = parts->of_values.contains(id) ? parts->of_values.at(id) : kWhole;
    option.parameters.push_back(dim == kWhole ? Placement::replicate() : Placement::shard(dim));
    option.parameter_gradients.push_back(dim == kWhole ? Placement::partial() : option.parameters.back());
  }
  return option;
}

std::vector<ShardingOption> ScriptLayer::sharding_options(std::span<const Shape>, int degree) const {
  const Shape& sample = script_.output.form.sample;
  std::vector<ShardingOption> options{replicate_option(int(script_.inputs.size()), int(script_.parameters.size()))};
  for (ShardingOption& like : elementwise_options(0, sample, degree, int(sample.size())))
    if (like.output.is_shard())
      if (auto option = option_for(std::move(like), degree)) options.push_back(std::move(*option));
  return options;
}

ScriptLayer::Parts ScriptLayer::parts_of(const LayerCall& call) const {
  if (call.option == nullptr || !call.option->output.is_shard() || call.tensor_degree == 1) return {};
  auto parts = parts_for(call.option->output.dim, call.tensor_degree);
  check_internal(parts.has_value(), "a layer runs under an option that it offers");
  parts->index = call.tensor_index;
  return std::move(*parts);
}

Shape ScriptLayer::local_extents(const Port& port, const Parts& parts) const {
  Shape extents = port.form.extents;
  const auto part = parts.of_values.find(port.value);
  if (part != parts.of_values.end() && part->second != kWhole)
    extents[size_t(port.form.extent_of(part->second))] /= parts.degree;
  return extents;
}

Shape ScriptLayer::local_sizes(ValueId id, const Parts& parts, int64_t samples) const {
  const Value& value = script_.values.at(id);
  Shape sizes = value.sizes;
  if (value.batch_dim >= 0) sizes[size_t(value.batch_dim)] = value.fold * samples;
  const auto part = parts.of_values.find(id);
  if (part != parts.of_values.end() && part->second != kWhole) sizes[size_t(part->second)] /= parts.degree;
  return sizes;
}

/// One computation of the layer: maps values to tensors.
class ScriptLayer::Run {
 public:
  Run(const ScriptLayer& layer, Parts parts, int64_t samples, at::ScalarType dtype)
      : layer_(layer), parts_(std::move(parts)), samples_(samples), dtype_(dtype) {}

  void set(ValueId id, at::Tensor tensor) { tensors_[id] = std::move(tensor); }
  const at::Tensor& get(ValueId id) const { return tensors_.at(id); }

  void step(size_t index) {
    const Operator& op = layer_.script_.operators[index];
    if (is_reshape(op.name)) {  // to the sizes of this worker's part
      set(op.result(), get(op.arguments[0].value).reshape(layer_.local_sizes(op.result(), parts_, samples_)));
    } else if (op.name == "aten::expand") {
      set(op.result(), get(op.arguments[0].value).expand(layer_.local_sizes(op.result(), parts_, samples_)));
    } else {
      run(op, index);
    }
  }

 private:
  void run(const Operator& op, size_t index) {
    size_t tensor = 0;
    const auto part_of_next = [&] {
      return parts_.of_arguments.empty() ? kWhole : parts_.of_arguments[index].at(tensor);
    };
    torch::jit::Stack stack;
    for (size_t i = 0; i < op.arguments.size(); ++i) {
      const auto value_of = [&](ValueId id) {
        ++tensor;
        return get(id);
      };
      const auto constant_of = [&](const Argument& constant) {
        const int part = part_of_next();
        ++tensor;
        return in_precision(cut(constant_tensor(constant, samples_), part));
      };
      stack.push_back(instantiate(op.arguments[i], samples_, value_of, constant_of));
      const bool names_dtype = op.argument_names[i] == "dtype" && stack.back().isInt();
      if (names_dtype && stack.back().toInt() == int64_t(layer_.script_.dtype)) stack.back() = int64_t(dtype_);
    }
    op.run(stack);
    take_results(op, stack);
  }

  void take_results(const Operator& op, const torch::jit::Stack& stack) {
    size_t next = 0;
    const auto take = [&](const at::Tensor& tensor) {
      if (next < op.results.size()) set(op.results[next++], tensor);
    };
    for (const c10::IValue& output : stack) {
      if (output.isTensor() && output.toTensor().defined()) take(output.toTensor());
      if (output.isTensorList())
        for (const at::Tensor& tensor : output.toTensorVector()) take(tensor);
    }
  }

  at::Tensor cut(const at::Tensor& whole, int dim) const {
    if (dim == kWhole) return whole;
    const int64_t size = whole.size(dim) / parts_.degree;
    return whole.narrow(dim, parts_.index * size, size);
  }

  at::Tensor in_precision(const at::Tensor& tensor) const {
    return tensor.scalar_type() == layer_.script_.dtype ? tensor.to(dtype_) : tensor;
  }

  const ScriptLayer& layer_;
  const Parts parts_;
  const int64_t samples_;
  const at::ScalarType dtype_;
  std::map<ValueId, at::Tensor> tensors_;
};

at::Tensor ScriptLayer::compute(LayerCall& call, std::span<const at::Tensor> inputs,
                                std::span<const at::Tensor> parameters) const {
  const Parts parts = parts_of(call);
  const int64_t samples = inputs[0].size(0);
  at::ScalarType dtype = script_.dtype;
  for (const at::Tensor& parameter : parameters) dtype = parameter.scalar_type();
  for (const at::Tensor& input : inputs)
    if (input.is_floating_point()) dtype = input.scalar_type();
  Run run(*this, parts, samples, dtype);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Port& port = script_.inputs[i];
    run.set(port.value, as_value(inputs[i], port.form, local_extents(port, parts)));
  }
  for (size_t i = 0; i < parameters.size(); ++i) run.set(script_.parameter_values[i], parameters[i].to(dtype));
  for (size_t i = 0; i < script_.operators.size(); ++i) run.step(i);
  return as_layer_tensor(run.get(script_.output.value), script_.output.form, local_extents(script_.output, parts),
                         samples);
}

}  // namespace trireme::torchscript
