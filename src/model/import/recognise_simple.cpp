// Recognises linear layers, embeddings, elementwise functions, dropout, concatenations and slices.
#include <algorithm>
#include <map>

#include "model/import/draft.h"
#include "model/import/merge.h"
#include "trireme/layers/activation.h"
#include "trireme/layers/add.h"
#include "trireme/layers/concat.h"
#include "trireme/layers/drop_samples.h"
#include "trireme/layers/dropout.h"
#include "trireme/layers/embedding.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/relu.h"
#include "trireme/layers/select_position.h"
#include "trireme/layers/slice.h"
#include "trireme/layers/softmax.h"

namespace trireme::torchscript {
namespace {

/// True if the last dim of a value is the last dim of a layer's tensor.
bool ends_in_features(const Form& form) {
  return form.dim_of(int(form.extents.size()) - 1) > form.batch_dim && !form.extents.empty();
}

/// Returns the dim of a layer's tensor that corresponds to an operator's dim argument; nullopt if parts along that dim
/// are not parts of the layer's tensor.
std::optional<int> layer_dim_argument(const Operator& op, std::string_view name, const Form& form, int dims) {
  const auto dim = int_argument(op, name);
  if (!dim) return std::nullopt;
  const int extent = form.extent_of(int(*dim < 0 ? *dim + dims : *dim));
  if (extent < 0 || (form.is_folded && extent == 0)) return std::nullopt;
  const int layer_dim = form.layer_dim_of(extent);
  return layer_dim > 0 ? std::optional(layer_dim) : std::nullopt;
}

/// The arguments of a linear layer, independent of the operator.
struct Product {
  const Argument *input = nullptr, *weight = nullptr, *bias = nullptr;
  bool transposed = false;  ///< the parameter is [in, out]
};

/// Sets the weight: the parameter that is read through aten::t or a transposition of both dims; else the argument
/// itself, [in, out].
void set_weight(const Draft& draft, const Argument* argument, Product& product) {
  product.weight = argument;
  product.transposed = true;
  if (argument == nullptr || !argument->is_value() || draft.value(argument->value).producer < 0) return;
  const Operator& op = draft.op(draft.value(argument->value).producer);
  if (op.name != "aten::t" && op.name != "aten::numpy_T" && op.name != "aten::transpose") return;
  product.weight = &op.arguments[0];
  product.transposed = false;
}

std::optional<Product> product_of(const Draft& draft, const Operator& op) {
  Product product;
  if (op.name == "aten::linear") {
    product = {op.find("input"), op.find("weight"), op.find("bias")};
  } else if (op.name == "aten::addmm") {
    if (number_argument(op, "alpha").value_or(1) != 1 || number_argument(op, "beta").value_or(1) != 1)
      return std::nullopt;
    product = {op.find("mat1"), nullptr, op.find("self")};
    set_weight(draft, op.find("mat2"), product);
  } else if (op.name == "aten::matmul" || op.name == "aten::mm") {
    product = {op.find("self"), nullptr, nullptr};
    set_weight(draft, op.find(op.name == "aten::mm" ? "mat2" : "other"), product);
  } else {
    return std::nullopt;
  }
  return product;
}

}  // namespace

namespace {

/// The result of find_linear, which returns nullopt if the operator is not a product of a value's features with a
/// parameter.
struct LinearFound {
  Product product;
  const Value *weight = nullptr, *bias = nullptr;
  int64_t in = 0, out = 0;
};

std::optional<LinearFound> find_linear(const Draft& draft, int index) {
  const auto product = product_of(draft, draft.op(index));
  if (!product) return std::nullopt;
  LinearFound found{*product, draft.parameter(product->weight), draft.parameter(product->bias)};
  const Form* input = draft.form(product->input);
  const bool fits = input != nullptr && found.weight != nullptr && found.weight->sizes.size() == 2 &&
                    !input->is_image && ends_in_features(*input);
  if (!fits || (product->bias != nullptr && found.bias == nullptr)) return std::nullopt;
  found.in = found.weight->sizes[product->transposed ? 0 : 1];
  found.out = found.weight->sizes[product->transposed ? 1 : 0];
  const bool sizes_fit =
      input->sample.back() == found.in && (found.bias == nullptr || found.bias->sizes == Shape{found.out});
  return sizes_fit ? std::optional(found) : std::nullopt;
}

}  // namespace

bool is_linear(const Draft& draft, int index) { return find_linear(draft, index).has_value(); }

bool recognise_linear(Draft& draft, int index) {
  const auto found = find_linear(draft, index);
  if (!found) return false;
  const Operator& op = draft.op(index);
  const std::string module = draft.module_of(found->product.weight, found->product.bias);
  LinearOptions options{.bias = found->bias != nullptr, .weight_name = found->weight->name};
  if (found->bias != nullptr) options.bias_name = found->bias->name;
  options.transposed = found->product.transposed;
  options.parts = draft.parts_of(op.result());
  const int64_t out = options.parts > 0 ? found->out / options.parts : found->out;
  const std::string name = module.empty() ? draft.new_name(op, "linear") : draft.new_name(module);
  draft.add({std::make_shared<const Linear>(name, found->in, out, options),
             {found->product.input->value},
             op.result(),
             {index}});
  return true;
}

namespace {

std::optional<Function> function_of(const Operator& op) {
  static const std::map<std::string_view, Function> by_name{
      {"aten::tanh", Function::tanh},           {"aten::sigmoid", Function::sigmoid},
      {"aten::silu", Function::silu},           {"aten::hardsigmoid", Function::hardsigmoid},
      {"aten::hardswish", Function::hardswish}, {"aten::relu6", Function::relu6}};
  const auto known = by_name.find(op.name);
  if (known != by_name.end()) return known->second;
  if (op.name == "aten::hardtanh" && number_argument(op, "min_val") == 0 && number_argument(op, "max_val") == 6)
    return Function::relu6;
  if (op.name != "aten::gelu") return std::nullopt;
  const Argument* approximate = op.find("approximate");
  const bool by_tanh =
      approximate != nullptr && approximate->constant.isString() && approximate->constant.toStringRef() == "tanh";
  return by_tanh ? Function::gelu_tanh : Function::gelu;
}

/// True if an operator's output and its inputs have the same form.
bool have_one_form(const Draft& draft, const Operator& op, std::initializer_list<const Argument*> arguments) {
  if (op.results.size() != 1 || !draft.form(op.result())) return false;
  return std::all_of(arguments.begin(), arguments.end(), [&](const Argument* argument) {
    const Form* form = draft.form(argument);
    return form != nullptr && *form == *draft.form(op.result());
  });
}

}  // namespace

bool recognise_activation(Draft& draft, int index) {
  const Operator& op = draft.op(index);
  if (op.arguments.empty() || !have_one_form(draft, op, {&op.arguments[0]})) return false;
  std::shared_ptr<const Layer> layer;
  if (op.name == "aten::relu") layer = std::make_shared<const Relu>(draft.new_name(op, "relu"));
  else if (const auto function = function_of(op))
    layer = std::make_shared<const Activation>(draft.new_name(op, short_name(op)), *function);
  if (!layer) return false;
  draft.add({layer, {op.arguments[0].value}, op.result(), {index}});
  return true;
}

namespace {

bool recognise_add(Draft& draft, int index) {
  const Operator& op = draft.op(index);
  const Argument *a = op.find("self"), *b = op.find("other");
  if (number_argument(op, "alpha").value_or(1) != 1 || !have_one_form(draft, op, {a, b})) return false;
  draft.add({std::make_shared<const Add>(draft.new_name(op, "add")), {a->value, b->value}, op.result(), {index}});
  return true;
}

bool recognise_concat(Draft& draft, int index) {
  const Operator& op = draft.op(index);
  if (op.results.size() != 1 || !draft.form(op.result()) || op.arguments[0].items.empty()) return false;
  const Form& output = *draft.form(op.result());
  const auto dim = layer_dim_argument(op, "dim", output, int(draft.value(op.result()).sizes.size()));
  if (!dim) return false;
  Item item{.layer = nullptr, .inputs = {}, .output = op.result(), .operators = {index}};
  for (const Argument& part : op.arguments[0].items) {
    const Form* form = draft.form(&part);
    if (form == nullptr || form->batch_dim != output.batch_dim || form->is_folded != output.is_folded ||
        form->sample.size() != output.sample.size() || (form->is_collapsed() && *dim == 1 && form->extents[0] == 1))
      return false;
    item.inputs.push_back(part.value);
  }
  item.layer = std::make_shared<const Concat>(draft.new_name(op, "cat"), *dim);
  draft.add(std::move(item));
  return true;
}

bool recognise_softmax(Draft& draft, int index) {
  const Operator& op = draft.op(index);
  if (!have_one_form(draft, op, {&op.arguments[0]}) ||
      draft.value(op.result()).dtype != draft.value(op.arguments[0].value).dtype)
    return false;
  const Form& form = *draft.form(op.result());
  const auto dim = layer_dim_argument(op, "dim", form, int(draft.value(op.result()).sizes.size()));
  if (!dim || (form.is_collapsed() && *dim == 1)) return false;
  draft.add({std::make_shared<const Softmax>(draft.new_name(op, "softmax"), *dim),
             {op.arguments[0].value},
             op.result(),
             {index}});
  return true;
}

}  // namespace

bool recognise_elementwise(Draft& draft, int index) {
  const std::string& name = draft.op(index).name;
  if (name == "aten::add") return recognise_add(draft, index);
  if (name == "aten::cat") return recognise_concat(draft, index);
  if (name == "aten::softmax") return recognise_softmax(draft, index);
  return false;
}

bool recognise_dropout(Draft& draft, int index) {
  const Operator& op = draft.op(index);
  const bool samples = op.name == kDropSamples, channels = op.name == "aten::feature_dropout",
             elements = op.name == "aten::dropout";
  if (!samples && !channels && !elements) return false;
  const auto chance = number_argument(op, "p");
  if (!chance || !have_one_form(draft, op, {&op.arguments[0]})) return false;
  const std::string name = draft.new_name(op, samples ? "drop_samples" : "dropout");
  std::shared_ptr<const Layer> layer;
  if (elements) layer = std::make_shared<const Dropout>(name, *chance);
  else
    layer =
        std::make_shared<const DropSamples>(name, *chance, channels ? 1 : int(int_argument(op, "dims").value_or(0)));
  draft.add({layer, {op.arguments[0].value}, op.result(), {index}});
  return true;
}

bool recognise_embedding(Draft& draft, int index) {
  const Operator& op = draft.op(index);
  if (op.name != "aten::embedding" || !draft.form(op.result())) return false;
  const Argument *weight = op.find("weight"), *indices = op.find("indices");
  const Form* input = draft.form(indices);
  const std::string module = draft.module_of(weight, nullptr);
  const bool plain = !flag_argument(op, "scale_grad_by_freq") && !flag_argument(op, "sparse");
  if (!plain || input == nullptr || module.empty() || input->extents.size() != 1 || input->batch_dim != 0) return false;
  const Shape& table = draft.value(weight->value).sizes;
  const EmbeddingOptions embedding{.padding = int_argument(op, "padding_idx").value_or(-1)};
  draft.add({std::make_shared<const Embedding>(draft.new_name(module), table[0], table[1], embedding),
             {indices->value},
             op.result(),
             {index}});
  return true;
}

namespace {

/// Returns one result of an operator that cuts its input along a dim: elements begin .. begin + size - 1.
std::optional<Item> slice_of(Draft& draft, int index, ValueId result, int64_t begin) {
  const Operator& op = draft.op(index);
  const Form* input = draft.form(&op.arguments[0]);
  if (input == nullptr || !draft.form(result)) return std::nullopt;
  const Form& output = *draft.form(result);
  const auto dim = layer_dim_argument(op, "dim", *input, int(draft.value(op.arguments[0].value).sizes.size()));
  const bool alike = input->sample.size() == output.sample.size() && input->is_image == output.is_image &&
                     input->batch_dim == output.batch_dim && input->is_folded == output.is_folded;
  if (!dim || !alike) return std::nullopt;
  int64_t inner = 1;  // elements of the layer's dim per element of the value's dim
  if (input->is_collapsed() && *dim == 1)
    for (size_t e = size_t(input->extent_of_layer_dim(1)) + 1; e + 1 < input->extents.size(); ++e)
      inner *= input->extents[e];
  const int64_t size = output.sample[size_t(*dim - 1)];
  return Item{
      std::make_shared<const Slice>(draft.new_name(op, short_name(op)),
                                    SliceOptions{.begin = begin * inner, .end = begin * inner + size, .dim = *dim}),
      {op.arguments[0].value},
      result,
      {index}};
}

bool recognise_slice(Draft& draft, int index) {
  const Operator& op = draft.op(index);
  const auto dim = int_argument(op, "dim"), start = int_argument(op, "start"), step = int_argument(op, "step");
  if (!dim || step.value_or(1) != 1 || !op.arguments[0].is_value()) return false;
  const Shape& sizes = draft.value(op.arguments[0].value).sizes;
  const int64_t length = sizes[size_t(*dim < 0 ? *dim + int64_t(sizes.size()) : *dim)], begin = start.value_or(0);
  auto item = slice_of(draft, index, op.result(), std::clamp<int64_t>(begin < 0 ? begin + length : begin, 0, length));
  if (item) draft.add(std::move(*item));
  return item.has_value();
}

bool recognise_chunks(Draft& draft, int index) {
  const Operator& op = draft.op(index);
  const auto dim = int_argument(op, "dim");
  if (!dim) return false;
  int64_t begin = 0;
  std::vector<Item> items;
  for (ValueId result : op.results) {
    const Shape& sizes = draft.value(result).sizes;
    if (!draft.readers(result).empty()) {
      auto item = slice_of(draft, index, result, begin);
      if (!item) return false;
      items.push_back(std::move(*item));
    }
    begin += sizes[size_t(*dim < 0 ? *dim + int64_t(sizes.size()) : *dim)];
  }
  for (Item& item : items) draft.add(std::move(item));
  return true;
}

bool recognise_position(Draft& draft, int index) {
  const Operator& op = draft.op(index);
  const Form* input = draft.form(&op.arguments[0]);
  const auto dim = int_argument(op, "dim"), position = int_argument(op, "index");
  if (input == nullptr || !dim || !position || input->extents.size() != 2 || input->is_folded ||
      !draft.form(op.result()))
    return false;
  const Shape& sizes = draft.value(op.arguments[0].value).sizes;
  const int own = int(*dim < 0 ? *dim + int64_t(sizes.size()) : *dim);
  if (input->extent_of(own) != 0) return false;
  const int64_t at = *position < 0 ? *position + sizes[size_t(own)] : *position;
  draft.add({std::make_shared<const SelectPosition>(draft.new_name(op, "select"), at),
             {op.arguments[0].value},
             op.result(),
             {index}});
  return true;
}

}  // namespace

bool recognise_part(Draft& draft, int index) {
  const std::string& name = draft.op(index).name;
  if (name == "aten::slice") return recognise_slice(draft, index);
  if (name == "aten::select") return recognise_position(draft, index);
  if (name == "aten::chunk" || name == "aten::split" || name == "aten::split_with_sizes")
    return recognise_chunks(draft, index);
  return false;
}

}  // namespace trireme::torchscript
