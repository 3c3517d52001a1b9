// Interpreter: operators. Operators on constants are only evaluated; operators on data and parameters are also
// recorded.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <array>
#include <optional>
#include <set>

#include "base/text.h"
#include "model/import/interpreter_state.h"

namespace trireme::torchscript {
namespace {

using c10::IValue;

/// Operators that draw random numbers, except dropout, which is identified by its arguments.
const std::set<std::string_view> kRandom{"bernoulli",   "rand",       "randn",        "randint", "randperm",
                                         "rand_like",   "randn_like", "randint_like", "normal",  "uniform",
                                         "multinomial", "poisson",    "exponential",  "cauchy",  "geometric",
                                         "log_normal",  "random",     "rrelu"};

/// Operators that read a tensor's shape and type, not its numbers.
const std::set<std::string_view> kAboutShape{
    "aten::size", "aten::dim", "aten::len", "aten::numel", "aten::stride", "aten::storage_offset",
    "aten::is_floating_point", "aten::is_complex", "aten::is_contiguous", "aten::get_device", "aten::is_signed",
    "aten::element_size", "aten::__is__", "aten::__isnot__", "aten::is_leaf", "aten::sym_size", "prim::dtype",
    "prim::device", "prim::layout", "prim::is_cuda", "prim::is_sparse", "prim::is_mkldnn", "prim::is_quantized",
    "prim::is_cpu", "prim::is_meta", "prim::is_nested", "prim::type", "prim::ndim",
    // new tensors of the argument's shape and type
    "aten::new_zeros", "aten::new_ones", "aten::new_full", "aten::new_empty", "aten::new_tensor", "aten::zeros_like",
    "aten::ones_like", "aten::full_like", "aten::empty_like"};

/// "relu" of "aten::relu_".
std::string base_name(const std::string& name) {
  const size_t colons = name.rfind("::");
  std::string base = colons == std::string::npos ? name : name.substr(colons + 2);
  if (base.size() > 1 && base.ends_with('_') && !base.ends_with("__")) base.pop_back();
  return base;
}

/// True for types in a schema that hold tensors which the operator computes with. (Operators only move lists of other
/// element types.)
bool computes_with(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::TensorType: return true;
    case c10::TypeKind::OptionalType: return computes_with(*type.expectRef<c10::OptionalType>().getElementType());
    case c10::TypeKind::ListType: return computes_with(*type.expectRef<c10::ListType>().getElementType());
    default: return false;
  }
}

void for_each_tensor(const IValue& value, const std::function<void(const at::Tensor&)>& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isList()) {
    for (const IValue& item : value.toListRef()) for_each_tensor(item, visit);
  } else if (value.isTuple()) {
    for (const IValue& item : value.toTupleRef().elements()) for_each_tensor(item, visit);
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) for_each_tensor(entry.value(), visit);
  }
}

const IValue* input_named(const char* name, const c10::FunctionSchema& schema, const std::vector<IValue>& inputs) {
  const auto index = schema.argumentIndexWithName(name);
  return index && size_t(*index) < inputs.size() ? &inputs[size_t(*index)] : nullptr;
}

/// Returns the probability with which an operator drops numbers in training; nullopt if it has no dropout. Recurrent
/// operators drop between their layers.
std::optional<double> chance_to_drop(const c10::FunctionSchema& schema, const std::vector<IValue>& inputs) {
  const IValue *chance = input_named("p", schema, inputs), *between = input_named("dropout", schema, inputs);
  const IValue* layers = input_named("num_layers", schema, inputs);
  if (chance != nullptr && chance->isDouble()) return chance->toDouble();
  if (between == nullptr || !between->isDouble()) return std::nullopt;
  return layers != nullptr && layers->isInt() && layers->toInt() == 1 ? 0 : between->toDouble();
}

bool writes(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

/// Appends the sum of numbers, weighted by position, and the weighted sum of their magnitudes.
void add_sums(const at::Tensor& numbers, std::vector<double>& sums) {
  const at::Tensor flat = numbers.reshape({-1}).to(at::kDouble).nan_to_num(0, 1, -1);
  const at::Tensor weights = at::arange(flat.numel(), flat.options()).add_(1).sin_();
  sums.push_back(at::dot(flat, weights).item<double>());
  sums.push_back(at::dot(flat.abs(), weights.abs()).item<double>());
}

/// Sums over the first samples: for each dim that may be the batch's, then for the first dim if the samples may be its
/// inner part. NaN for other dims.
std::vector<double> signature_of(const at::Tensor& tensor, int64_t samples) {
  std::vector<double> sums;
  const auto follows = [&](int64_t dim) { return tensor.size(dim) % samples == 0 && tensor.numel() > 0; };
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    if (follows(dim)) add_sums(tensor.narrow(dim, 0, tensor.size(dim) / samples * kProbeBatch), sums);
    else sums.insert(sums.end(), 2, std::numeric_limits<double>::quiet_NaN());
  }
  if (tensor.dim() > 0 && follows(0) && tensor.size(0) > samples)
    add_sums(tensor.unflatten(0, {tensor.size(0) / samples, samples}).narrow(1, 0, kProbeBatch), sums);
  return sums;
}

}  // namespace

bool Interpreter::mentions_value(const IValue& value) const {
  bool found = false;
  for_each_tensor(value, [&](const at::Tensor& tensor) { found = found || value_of(tensor) != nullptr; });
  return found;
}

const Value* Interpreter::value_of(const at::Tensor& tensor) const {
  const auto it = known_.find(tensor.unsafeGetTensorImpl());
  return it == known_.end() ? nullptr : &tape_.graph.value(it->second.value);
}

ValueId Interpreter::add_value(const at::Tensor& tensor, Value value) {
  const auto id = ValueId(tape_.graph.values.size());
  value.sizes = tensor.sizes().vec();
  value.dtype = tensor.scalar_type();
  tape_.signatures.push_back(value.from_data && !training_ ? signature_of(tensor, samples_) : std::vector<double>{});
  tape_.graph.values.push_back(std::move(value));
  know(tensor, id);
  return id;
}

void Interpreter::know(const at::Tensor& tensor, ValueId id) {
  known_.erase(tensor.unsafeGetTensorImpl());
  known_.emplace(tensor.unsafeGetTensorImpl(),
                 Known{HoldsAddress(tensor.getIntrusivePtr()), id, uint32_t(tensor._version())});
}

/// Returns a copy of a tensor that the module created or holds, with its present numbers.
Argument Interpreter::capture(const at::Tensor& tensor) {
  Argument argument;
  const auto attribute = attributes_.find(tensor.unsafeGetTensorImpl());
  if (attribute != attributes_.end()) {
    argument.attribute = attribute->second;
    argument.constant = file_.buffers.at(attribute->second);
    return argument;
  }
  Captured& captured = captured_[tensor.unsafeGetTensorImpl()];
  const auto version = uint32_t(tensor._version());
  if (!captured.original.defined() || captured.version != version) captured = {tensor, tensor.clone(), version};
  argument.constant = captured.copy;
  return argument;
}

/// True if another tensor wrote to the memory of this one after it got its value.
bool Interpreter::is_stale(const at::Tensor& tensor) const {
  const auto it = known_.find(tensor.unsafeGetTensorImpl());
  if (it != known_.end()) return it->second.version != uint32_t(tensor._version());
  return overwritten_.count(tensor.storage().unsafeGetStorageImpl()) > 0;
}

void Interpreter::check_readable(const Node* node, const at::Tensor& tensor) {
  if (is_stale(tensor) && !take_view_anew(tensor))
    fail(
        node, "reads a tensor that shares memory with one which was changed in place",
        "write to the whole tensor (y[:, 0] = z), change a copy (z = y.clone()), or write y = y + z instead of y += z");
}

Argument Interpreter::to_argument(Node* node, const IValue& value) {
  Argument argument;
  if (value.isTensor()) {
    if (!value.toTensor().defined()) return argument;
    check_readable(node, value.toTensor());
    const auto it = known_.find(value.toTensor().unsafeGetTensorImpl());
    if (it == known_.end()) return capture(value.toTensor());
    argument.kind = Argument::Kind::value;
    argument.value = it->second.value;
    return argument;
  }
  bool has_tensors = false;
  for_each_tensor(value, [&](const at::Tensor&) { has_tensors = true; });
  if (!has_tensors) {
    argument.constant = value.isList() ? value.deepcopy() : value;
    return argument;
  }
  if (!value.isList())
    fail(node, fmt::format("takes tensors in a {}", value.tagKind()), "pass them one by one or in a list");
  argument.kind = Argument::Kind::list;
  argument.item_type = value.toList().elementType();
  for (const IValue& item : value.toListRef()) argument.items.push_back(to_argument(node, item));
  return argument;
}

Operator Interpreter::describe(const Frame& frame, Node* node, const c10::FunctionSchema& schema,
                               const std::vector<IValue>& inputs) {
  Operator op;
  op.name = node->kind().toQualString();
  op.node = node;
  op.path = frame.path;
  op.module = frame.module;
  auto operation = node->getOperation();
  op.run = [operation](torch::jit::Stack& stack) mutable { operation(stack); };
  for (size_t i = 0; i < inputs.size(); ++i) {
    op.argument_names.push_back(i < schema.arguments().size() ? schema.arguments()[i].name() : "");
    op.arguments.push_back(to_argument(node, inputs[i]));
  }
  return op;
}

/// Operators that query the tensor's mode, by which a module may choose a kernel. Training has gradients.
bool Interpreter::answers_about_mode(Frame& frame, Node* node, const std::vector<IValue>& inputs) {
  const std::string name = node->kind().toQualString();
  if (name == "aten::is_grad_enabled") {
    set(frame, node, {true});
    return true;
  }
  if (name == "prim::requires_grad") {
    const Value* value = inputs.at(0).isTensor() ? value_of(inputs[0].toTensor()) : nullptr;
    set(frame, node, {value != nullptr && value->trained});
    return true;
  }
  // nn.TransformerEncoder calls this before it packs padded samples for inference, which it does only without gradients
  if (name == "aten::_nested_tensor_from_mask_left_aligned") {
    set(frame, node, {false});
    return true;
  }
  if (name == "aten::set_grad_enabled") fail(node, "switches gradients off", "detach the tensors instead");
  return false;
}

void Interpreter::execute(Node* node, torch::jit::Stack& stack) {
  if (node->schema().is_vararg()) stack.emplace_back(int64_t(stack.size()));

  try {
    node->getOperation()(stack);
  } catch (const std::exception& error) {
    const std::string what = first_line(error);
    const bool is_lookup = what.find("index out of range") != what.npos;
    fail(node, fmt::format("fails with {} samples: {}", samples_, what),
         is_lookup ? "check that the module knows all tokens of the data set"
                   : "check the shape of a sample; a traced module works with any number of them only where it takes "
                     "sizes from tensors, x.size(0)");
  }
}

/// Records buffers that operators write or read, except those of batch norm, which its layer holds.
void Interpreter::note_state(Node* node, const c10::FunctionSchema& schema, const std::vector<IValue>& inputs) {
  const std::string base = base_name(node->kind().toQualString());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool written = i < schema.arguments().size() && writes(schema.arguments()[i]);
    const std::string argument = i < schema.arguments().size() ? schema.arguments()[i].name() : "";
    if (base == "batch_norm" && argument.starts_with("running_")) continue;
    if (base == "instance_norm" && argument.starts_with("running_")) continue;
    for_each_tensor(inputs[i], [&](const at::Tensor& tensor) {
      const at::Tensor changed = written ? root_of(tensor) : tensor;
      const auto attribute = attributes_.find(changed.unsafeGetTensorImpl());
      if (attribute == attributes_.end()) return;
      if (written && value_of(changed) != nullptr)
        fail(node, fmt::format("changes the parameter \"{}\"", attribute->second), "leave that to the optimizer");
      if (!kAboutShape.contains(node->kind().toQualString()))
        (written ? changed_ : read_).try_emplace(attribute->second, node);
    });
  }
}

void Interpreter::check_state() const {
  for (const auto& [name, node] : changed_) {
    const auto reader = read_.find(name);
    if (reader == read_.end()) continue;
    fail(reader->second,
         fmt::format("reads the buffer \"{}\", which {} changes from step to step", name, place_of(*node)),
         "only batch norm may keep state; give it a momentum that is a number");
  }
}

void Interpreter::add_results(Operator op, const std::vector<IValue>& outputs) {
  const int index = int(tape_.graph.operators.size());
  Value value;
  value.producer = index;
  for (const Argument& argument : op.arguments)
    for_each_value(argument, [&](ValueId id) {
      value.from_data = value.from_data || tape_.graph.value(id).from_data;
      value.trained = value.trained || tape_.graph.value(id).trained;
    });
  for (const IValue& output : outputs)
    for_each_tensor(output, [&](const at::Tensor& tensor) {
      value.result = int(op.results.size());
      op.results.push_back(add_value(tensor, value));
    });
  tape_.graph.operators.push_back(std::move(op));
}

/// Records an operator that the module does not contain, and whose result is known.
Argument Interpreter::emit(const Frame& frame, Node* node, const char* name, const char* overload,
                           std::vector<Argument> arguments, const at::Tensor& result) {
  const auto found = torch::jit::findOperatorFor({name, overload});
  check_internal(found != nullptr, fmt::format("libtorch has {}.{}", name, overload));
  Operator op;
  op.name = name;
  op.node = node;
  op.path = frame.path;
  op.module = frame.module;
  auto operation = found->getOperation();
  op.run = [operation](torch::jit::Stack& stack) mutable { operation(stack); };
  check_internal(arguments.size() == found->schema().arguments().size(),
                 fmt::format("{} gets all its arguments", name));
  for (const c10::Argument& argument : found->schema().arguments()) op.argument_names.push_back(argument.name());
  op.arguments = std::move(arguments);
  add_results(std::move(op), {result});
  return argument_of(result);
}

/// Sets training flags to false in evaluation, even if tracing has fixed an operator to training mode, which would mix
/// samples and draw random numbers.
void Interpreter::evaluate(const Frame& frame, const c10::FunctionSchema& schema, std::vector<IValue>& inputs) {
  const auto mean = schema.argumentIndexWithName("running_mean");
  // without running statistics it can only normalise with the batch's
  if (mean && inputs.at(size_t(*mean)).isNone()) return;
  for (size_t i = 0; i < inputs.size() && i < schema.arguments().size(); ++i) {
    const std::string& name = schema.arguments()[i].name();
    if ((name != "training" && name != "train") || !inputs[i].isBool() || !inputs[i].toBool()) continue;
    inputs[i] = false;
    if (chance_to_drop(schema, inputs) != 0.0) tape_.fixed_to_training.push_back(frame.module);
  }
}

/// Records a dropout that is disabled in training.
void Interpreter::note_dropout(const Frame& frame, const c10::FunctionSchema& schema,
                               const std::vector<IValue>& inputs) {
  const IValue* train = input_named("train", schema, inputs);
  const bool is_off = train != nullptr && train->isBool() && !train->toBool();
  if (is_off && chance_to_drop(schema, inputs).value_or(0) > 0) tape_.switched_off.push_back(frame.module);
}

void Interpreter::run_operator(Frame& frame, Node* node) {
  std::vector<IValue> inputs = inputs_of(frame, node);
  if (answers_about_mode(frame, node, inputs)) return;
  if (node->maybeOperator() == nullptr) fail(node, "is not an operator of this build of libtorch", "trace the module");
  const c10::FunctionSchema& schema = node->schema();
  if (!training_) evaluate(frame, schema, inputs);
  else note_dropout(frame, schema, inputs);
  note_state(node, schema, inputs);

  const std::string name = node->kind().toQualString(), base = base_name(name);
  const bool is_random = kRandom.contains(base);
  bool computes = is_random, changes = false;
  for (size_t i = 0; i < inputs.size() && i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    if (!computes_with(*argument.type())) continue;
    changes = changes || writes(argument);
    for_each_tensor(inputs[i], [&](const at::Tensor& tensor) { check_readable(node, tensor); });
    computes = computes || mentions_value(inputs[i]);
  }
  torch::jit::Stack stack(inputs.begin(), inputs.end());
  if (!computes || kAboutShape.contains(name)) {
    execute(node, stack);
    note_view(frame, node, schema, inputs, stack);
    set(frame, node, std::move(stack));
    return;
  }
  if (name == "aten::embedding_bag") return run_bags(frame, node, inputs);
  Operator op = describe(frame, node, schema, inputs);
  op.is_random = is_random;
  if (changes) return run_in_place(frame, node, std::move(op), schema, inputs);
  execute(node, stack);
  bool has_tensors = false, is_new = false;
  for (const IValue& output : stack)
    for_each_tensor(output, [&](const at::Tensor& tensor) {
      has_tensors = true;
      is_new = is_new || value_of(tensor) == nullptr;
    });
  if (!has_tensors)
    fail(node, "converts data or weights to a Python number, on which the rest depends",
         "control flow, sizes and indices must not depend on them: compute both ways and choose with torch.where");
  if (is_new) add_results(std::move(op), stack);
  note_view(frame, node, schema, inputs, stack);
  set(frame, node, std::move(stack));
}

}  // namespace trireme::torchscript
