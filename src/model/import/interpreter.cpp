#include "model/import/interpreter.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/constants.h>

#include "model/import/interpreter_state.h"

namespace trireme::torchscript {

namespace prim = c10::prim;

int Paths::of(int from, const torch::jit::Node* node, int64_t round) {
  return numbers_.try_emplace({from, node, round}, int(numbers_.size()) + 1).first->second;
}

namespace {

/// Returns a copy to run, in training or evaluation mode. It shares types and code with the file's module.
torch::jit::Module copy_of(const ScriptFile& file, bool training) {
  torch::jit::Module copy = file.module->deepcopy();
  copy.train(training);
  return copy;
}

}  // namespace

Interpreter::Names Interpreter::tensor_names(const torch::jit::Module& module) {
  Names names;
  for (const auto& parameter : module.named_parameters())
    names.try_emplace(parameter.value.unsafeGetTensorImpl(), parameter.name);
  for (const auto& buffer : module.named_buffers())
    if (buffer.value.defined()) names.try_emplace(buffer.value.unsafeGetTensorImpl(), buffer.name);
  return names;
}

Interpreter::Names Interpreter::module_names(const torch::jit::Module& module) {
  Names names;
  for (const auto& child : module.named_modules()) names.try_emplace(child.value._ivalue().get(), child.name);
  return names;
}

Interpreter::Interpreter(const ScriptFile& file, Paths& paths, bool training)
    : file_(file),
      paths_(paths),
      training_(training),
      module_(copy_of(file, training)),
      modules_(module_names(module_)),
      attributes_(tensor_names(module_)) {}

void Interpreter::fail(const Node* node, std::string why, std::string next) const {
  fail_at(file_.path, *node, std::move(why), std::move(next));
}

Tape Interpreter::run(const at::Tensor& data) {
  samples_ = data.size(0);
  for (const auto& parameter : module_.named_parameters()) {
    const Value* known = value_of(parameter.value);
    if (known != nullptr) continue;
    Value value;
    value.kind = Value::Kind::parameter;
    value.name = parameter.name;
    value.trained = true;
    add_value(parameter.value, std::move(value));
  }
  Value input;
  input.kind = Value::Kind::input;
  input.name = "data";
  input.from_data = true;
  add_value(data, std::move(input));
  const auto method = module_.find_method("forward");
  if (!method)
    fail_user({.where = file_.path.string(),
               .what = "a module without forward",
               .why = "",
               .next = "save a module that has one"});
  const auto& graph = *torch::jit::toGraphFunction(method->function()).graph();
  std::vector<IValue> arguments{module_._ivalue(), data};
  const auto& schema = method->function().getSchema();
  for (size_t i = arguments.size(); i < graph.inputs().size(); ++i) {
    const auto fallback = schema.arguments().at(i).default_value();
    if (!fallback)
      fail_user({.where = file_.path.string(),
                 .what = fmt::format("forward takes {} inputs", graph.inputs().size() - 1),
                 .why = "a model reads one tensor, a batch of samples",
                 .next = "wrap it in a module that takes one tensor and splits it"});
    arguments.push_back(*fallback);
  }
  const std::vector<IValue> returned = call(graph, std::move(arguments), "", 0);
  check_state();
  for (const IValue& value : returned)
    if (value.isTensor()) check_readable(graph.return_node(), value.toTensor());
  tape_.graph.output = main_output(returned.at(0));
  return std::move(tape_);
}

/// Returns the one tensor that a loss can read: the first of several, or the entry "out" of a dict, or else its first
/// entry.
ValueId Interpreter::main_output(const IValue& returned) {
  IValue value = returned;
  std::string way;
  while (!value.isTensor()) {
    IValue next;
    if (value.isTuple() && !value.toTupleRef().elements().empty()) {
      const auto type = value.type()->expect<c10::TupleType>();
      const auto names = type->schema() ? type->schema()->arguments() : std::vector<c10::Argument>{};
      next = value.toTupleRef().elements()[0];
      way += names.empty() ? "[0]" : "." + names[0].name();
    } else if (value.isList() && !value.toListRef().empty()) {
      next = value.toListRef()[0];
      way += "[0]";
    } else if (value.isGenericDict() && value.toGenericDict().size() > 0) {
      const auto dict = value.toGenericDict();
      auto entry = dict.begin();
      for (auto it = dict.begin(); it != dict.end(); ++it)
        if (it->key().isString() && it->key().toStringRef() == "out") entry = it;
      next = entry->value();
      way += entry->key().isString() ? fmt::format("[\"{}\"]", entry->key().toStringRef()) : "[first]";
    } else {
      fail_user({.where = file_.path.string(),
                 .what = fmt::format("forward returns a {}", value.tagKind()),
                 .why = "a loss reads a tensor",
                 .next = "return the logits"});
    }
    value = next;
  }
  tape_.output_note = way;
  const Value* output = value_of(value.toTensor());
  if (output == nullptr || !output->from_data)
    fail_user({.where = file_.path.string(),
               .what = "what forward returns" + way,
               .why = "does not depend on the data",
               .next = "return the logits"});
  tape_.output = value.toTensor();
  return known_.at(value.toTensor().unsafeGetTensorImpl()).value;
}

std::vector<c10::IValue> Interpreter::call(const torch::jit::Graph& graph, std::vector<IValue> arguments,
                                           std::string module, int path) {
  Frame frame{.module = std::move(module), .path = path, .values = {}};
  for (size_t i = 0; i < graph.inputs().size(); ++i) frame.values[graph.inputs()[i]] = std::move(arguments.at(i));
  run_block(frame, *graph.block());
  return outputs_of(frame, *graph.block());
}

namespace {

/// Collects all values that a node reads, including those inside its blocks.
void collect_reads(const torch::jit::Node& node, std::vector<const torch::jit::Value*>& reads) {
  for (const torch::jit::Value* input : node.inputs()) reads.push_back(input);
  for (const torch::jit::Block* block : node.blocks()) {
    for (const torch::jit::Node* inner : block->nodes()) collect_reads(*inner, reads);
    for (const torch::jit::Value* output : block->outputs()) reads.push_back(output);
  }
}

}  // namespace

/// Returns the values of `block` that no node after `node` reads.
const std::vector<const torch::jit::Value*>& Interpreter::last_read_by(const Node* node, const Block& block) {
  if (counted_.insert(&block).second) {
    std::unordered_map<const torch::jit::Value*, const Node*> last;
    for (const Node* each : block.nodes()) {
      std::vector<const torch::jit::Value*> reads;
      collect_reads(*each, reads);
      for (const torch::jit::Value* value : reads)
        if (value->node()->owningBlock() == &block) last[value] = each;
    }
    for (const torch::jit::Value* output : block.outputs()) last.erase(output);
    for (const auto& [value, reader] : last) last_reads_[reader].push_back(value);
  }
  return last_reads_[node];
}

void Interpreter::run_block(Frame& frame, const Block& block) {
  for (const Node* each : block.nodes()) {
    run_node(frame, const_cast<Node*>(each));
    for (const torch::jit::Value* value : last_read_by(each, block)) frame.values.erase(value);
  }
}

std::vector<c10::IValue> Interpreter::outputs_of(Frame& frame, const Block& block) {
  std::vector<IValue> outputs;
  for (const torch::jit::Value* output : block.outputs()) outputs.push_back(get(frame, output));
  return outputs;
}

const c10::IValue& Interpreter::get(Frame& frame, const torch::jit::Value* value) {
  const auto it = frame.values.find(value);
  check_internal(it != frame.values.end(), fmt::format("value %{} is there when it is read", value->debugName()));
  return it->second;
}

std::vector<c10::IValue> Interpreter::inputs_of(Frame& frame, Node* node) {
  std::vector<IValue> inputs;
  for (const torch::jit::Value* input : node->inputs()) inputs.push_back(get(frame, input));
  return inputs;
}

void Interpreter::set(Frame& frame, Node* node, std::vector<IValue> outputs) {
  check_internal(outputs.size() == node->outputs().size(), "a node gives what its outputs take");
  for (size_t i = 0; i < outputs.size(); ++i) frame.values[node->outputs()[i]] = std::move(outputs[i]);
}

void Interpreter::run_node(Frame& frame, Node* node) {
  if (!run_structure(frame, node)) run_operator(frame, node);
}

/// Executes a node of the language itself (constants, attributes, control flow), which is not recorded. Returns false
/// if the node is none of these.
bool Interpreter::run_structure(Frame& frame, Node* node) {
  const auto kind = node->kind();
  if (kind == prim::Constant) {
    const auto constant = torch::jit::toIValue(node->output());
    set(frame, node, {constant ? *constant : IValue()});
  } else if (kind == prim::GetAttr) {
    set(frame, node, {get(frame, node->input()).toObjectRef().getAttr(node->s(c10::attr::name))});
  } else if (kind == prim::SetAttr && node->s(c10::attr::name) == "num_batches_tracked") {
    changed_.try_emplace(frame.module + ".num_batches_tracked", node);
  } else if (kind == prim::SetAttr) {
    fail(node,
         fmt::format("sets the attribute \"{}\" of its module: state that changes from step to step",
                     node->s(c10::attr::name)),
         "return the value from forward instead");
  } else if (kind == prim::If) {
    run_if(frame, node);
  } else if (kind == prim::Loop) {
    run_loop(frame, node);
  } else if (kind == prim::CallMethod || kind == prim::CallFunction) {
    run_call(frame, node);
  } else if (kind == prim::RaiseException) {
    const IValue& message = get(frame, node->input(0));
    fail(node, fmt::format("the module raises: {}", message.isString() ? message.toStringRef() : "an exception"),
         "it does not accept samples of this shape: use another sample shape");
  } else if (kind == prim::Print || kind == c10::aten::warn) {
    set(frame, node, std::vector<IValue>(node->outputs().size()));
  } else if (kind == prim::unchecked_cast) {
    set(frame, node, {get(frame, node->input())});
  } else if (kind == prim::Uninitialized) {
    set(frame, node, {IValue()});
  } else if (kind == prim::Enter || kind == prim::Exit || kind == prim::fork || kind == prim::CreateObject) {
    fail(node, "\"with\" blocks, forks and objects created while the module runs cannot be imported",
         "remove them, or trace the module");
  } else {
    return build_container(frame, node) || take_apart(frame, node);
  }
  return true;
}

bool Interpreter::condition(Node* node, const IValue& value) {
  if (value.isBool()) return value.toBool();
  fail(node, fmt::format("a condition of type {}", value.tagKind()), "convert it to a Python bool");
}

void Interpreter::run_if(Frame& frame, Node* node) {
  const Block& block = *node->blocks()[condition(node, get(frame, node->input())) ? 0 : 1];
  run_block(frame, block);
  set(frame, node, outputs_of(frame, block));
}

void Interpreter::run_loop(Frame& frame, Node* node) {
  constexpr int64_t kMostRounds = 100'000;  // loops over layers, windows or positions have far fewer
  const Block& body = *node->blocks()[0];
  const int64_t most = get(frame, node->input(0)).toInt();
  bool goes_on = condition(node, get(frame, node->input(1)));
  std::vector<IValue> carried = inputs_of(frame, node);
  carried.erase(carried.begin(), carried.begin() + 2);
  const int outside = frame.path;
  for (int64_t round = 0; round < most && goes_on; ++round) {
    if (round == kMostRounds)
      fail(node, fmt::format("a loop of more than {} iterations", kMostRounds), "import a shorter sequence");
    frame.path = paths_.of(outside, node, round);
    frame.values[body.inputs()[0]] = round;
    for (size_t i = 0; i < carried.size(); ++i) frame.values[body.inputs()[i + 1]] = carried[i];
    run_block(frame, body);
    std::vector<IValue> outputs = outputs_of(frame, body);
    goes_on = condition(node, outputs[0]);
    carried.assign(outputs.begin() + 1, outputs.end());
  }
  frame.path = outside;
  set(frame, node, carried);
}

void Interpreter::run_call(Frame& frame, Node* node) {
  std::vector<IValue> arguments = inputs_of(frame, node);
  std::string module = frame.module;
  torch::jit::Function* function = nullptr;
  if (node->kind() == prim::CallMethod) {
    const auto& object = arguments.at(0).toObjectRef();
    const auto name = modules_.find(arguments.at(0).toObject().get());
    if (name != modules_.end()) module = name->second;
    function = object.type()->findMethod(node->s(c10::attr::name));
  } else {
    if (const auto type = node->input(0)->type()->cast<c10::FunctionType>()) function = type->function();
    arguments.erase(arguments.begin());
  }
  torch::jit::GraphFunction* graph = function ? torch::jit::tryToGraphFunction(*function) : nullptr;
  if (!graph) fail(node, "calls something that is not TorchScript", "trace the module");
  set(frame, node, call(*graph->graph(), std::move(arguments), std::move(module), paths_.of(frame.path, node)));
}

bool Interpreter::build_container(Frame& frame, Node* node) {
  const auto kind = node->kind();
  if (kind == prim::TupleConstruct) {
    const auto type = node->output()->type()->expect<c10::TupleType>();
    std::vector<IValue> items = inputs_of(frame, node);
    set(frame, node,
        {type->name() ? c10::ivalue::Tuple::createNamed(std::move(items), type)
                      : c10::ivalue::Tuple::create(std::move(items))});
  } else if (kind == prim::ListConstruct) {
    c10::impl::GenericList list(node->output()->type()->expectRef<c10::ListType>().getElementType());
    for (IValue& item : inputs_of(frame, node)) list.push_back(std::move(item));
    set(frame, node, {list});
  } else if (kind == prim::DictConstruct) {
    const auto& type = node->output()->type()->expectRef<c10::DictType>();
    c10::impl::GenericDict dict(type.getKeyType(), type.getValueType());
    const std::vector<IValue> items = inputs_of(frame, node);
    for (size_t i = 0; i + 1 < items.size(); i += 2) dict.insert_or_assign(items[i], items[i + 1]);
    set(frame, node, {dict});
  } else {
    return false;
  }
  return true;
}

bool Interpreter::take_apart(Frame& frame, Node* node) {
  const auto kind = node->kind();
  if (kind == prim::TupleUnpack) {
    const auto& elements = get(frame, node->input()).toTupleRef().elements();
    set(frame, node, std::vector<IValue>(elements.begin(), elements.end()));
  } else if (kind == prim::ListUnpack) {
    const IValue list = get(frame, node->input());
    const auto items = list.toListRef();
    if (items.size() != node->outputs().size())
      fail(node, fmt::format("unpacks a list of {} elements into {} values", items.size(), node->outputs().size()));
    set(frame, node, std::vector<IValue>(items.begin(), items.end()));
  } else if (kind == prim::isinstance) {
    const auto type = get(frame, node->input()).type();
    bool found = false;
    for (const auto& candidate : node->tys(c10::attr::types)) found = found || type->isSubtypeOf(*candidate);
    set(frame, node, {found});
  } else {
    return false;
  }
  return true;
}

Tape interpret(const ScriptFile& file, Paths& paths, bool training, const at::Tensor& data) {
  const c10::InferenceMode ordinary(false);
  const at::NoGradGuard no_grad;
  return Interpreter(file, paths, training).run(data);
}

}  // namespace trireme::torchscript
