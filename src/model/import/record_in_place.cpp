// Interpreter: in-place operators, and views of the tensors that they change. A write to a view is recorded as a new
// value of the base tensor (slice_scatter, select_scatter, or the inverse of the view). Other views of the base are
// created anew when they are read.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <numeric>
#include <set>

#include "model/import/interpreter_state.h"
#include "model/import/split_rules.h"

namespace trireme::torchscript {
namespace {

using c10::IValue;

/// Operators after which a tensor keeps nothing of its former content.
const std::set<std::string_view> kOverwriting{"aten::copy", "aten::fill", "aten::zero"};

/// The operator that computes the new base tensor after a write to a view.
struct Way {
  const char* name = nullptr;
  std::vector<Argument> arguments;
};

/// Returns the operator that restores a tensor of `sizes` from a view with all its elements: the inverse of the
/// operator that made the view. `name` is null if there is none.
Way way_back(const Operator& view, const Argument& written, const at::IntArrayRef sizes) {
  if (view.name == "aten::transpose" || view.name == "aten::swapaxes")
    return {"aten::transpose", {written, view.arguments[1], view.arguments[2]}};
  if (view.name == "aten::t" || view.name == "aten::numpy_T") return {"aten::t", {written}};
  if (view.name == "aten::permute") {
    const auto dims = view.arguments[1].constant.toIntVector();
    std::vector<int64_t> inverse(dims.size());
    for (size_t d = 0; d < dims.size(); ++d)
      inverse[size_t(dims[d] < 0 ? dims[d] + int64_t(dims.size()) : dims[d])] = int64_t(d);
    return {"aten::permute", {written, constant(inverse)}};
  }
  if (is_reshape(view.name)) return {"aten::reshape", {written, constant(sizes.vec())}};
  return {};
}

/// The same for a view with some of the elements: writes them over the former base tensor.
Way way_into(const Operator& view, const Argument& before, const Argument& written, const at::IntArrayRef sizes) {
  if (view.name == "aten::slice")
    return {"aten::slice_scatter",
            {before, written, view.arguments[1], view.arguments[2], view.arguments[3], view.arguments[4]}};
  if (view.name == "aten::select")
    return {"aten::select_scatter", {before, written, view.arguments[1], view.arguments[2]}};
  if (view.name != "aten::narrow") return {};
  const int64_t dim = view.arguments[1].constant.toInt(), start = view.arguments[2].constant.toInt();
  const int64_t begin = start < 0 ? start + sizes[size_t(dim < 0 ? dim + int64_t(sizes.size()) : dim)] : start;
  return {"aten::slice_scatter",
          {before, written, view.arguments[1], constant(begin), constant(begin + view.arguments[3].constant.toInt()),
           constant(1)}};
}

}  // namespace

/// Returns the present value of a tensor as an argument.
Argument Interpreter::argument_of(const at::Tensor& tensor) {
  const auto it = known_.find(tensor.unsafeGetTensorImpl());
  if (it == known_.end()) return capture(tensor);
  Argument argument;
  argument.kind = Argument::Kind::value;
  argument.value = it->second.value;
  return argument;
}

/// Records the base tensor of a view.
void Interpreter::note_view(const Frame& frame, Node* node, const c10::FunctionSchema& schema,
                            const std::vector<IValue>& inputs, const torch::jit::Stack& outputs) {
  if (inputs.empty() || inputs.size() > schema.arguments().size() || outputs.size() != 1) return;
  if (!inputs[0].isTensor() || !outputs[0].isTensor()) return;
  const at::Tensor &base = inputs[0].toTensor(), &view = outputs[0].toTensor();
  if (!base.defined() || !view.defined() || view.is_same(base) || !view.is_alias_of(base)) return;
  View made{HoldsAddress(view.getIntrusivePtr()), base, {}};
  made.op.arguments.emplace_back();
  made.op.argument_names.push_back(schema.arguments().at(0).name());
  for (size_t i = 1; i < inputs.size(); ++i) {
    if (inputs[i].isTensor() || inputs[i].isTensorList()) return;
    made.op.arguments.push_back(constant(inputs[i].isList() ? inputs[i].deepcopy() : inputs[i]));
    made.op.argument_names.push_back(schema.arguments().at(i).name());
  }
  made.op.name = node->kind().toQualString();
  made.op.node = node;
  made.op.path = frame.path;
  made.op.module = frame.module;
  auto operation = node->getOperation();
  made.op.run = [operation](torch::jit::Stack& stack) mutable { operation(stack); };
  std::erase_if(views_,
                [](const auto& entry) { return entry.second.holds_address.expired(); });  // an entry retains its base
  views_.insert_or_assign(view.unsafeGetTensorImpl(), std::move(made));
}

/// If another tensor has written to a view's memory, gives the view its present value. Returns false if that is not
/// possible.
bool Interpreter::take_view_anew(const at::Tensor& tensor) {
  const auto view = views_.find(tensor.unsafeGetTensorImpl());
  if (view == views_.end()) return false;
  const at::Tensor base = view->second.base;
  if (is_stale(base) && !take_view_anew(base)) return false;
  if (value_of(base) == nullptr) return false;
  Operator op = view->second.op;
  op.arguments[0] = argument_of(base);
  add_results(std::move(op), {tensor});
  return true;
}

/// Returns the tensor at the end of a chain of views.
at::Tensor Interpreter::root_of(at::Tensor tensor) const {
  for (auto view = views_.find(tensor.unsafeGetTensorImpl()); view != views_.end();
       view = views_.find(tensor.unsafeGetTensorImpl()))
    tensor = view->second.base;
  return tensor;
}

/// Returns the bases of a view, the nearest first, with their present values.
std::vector<Argument> Interpreter::bases_of(Node* node, at::Tensor tensor) {
  std::vector<Argument> bases;
  for (auto view = views_.find(tensor.unsafeGetTensorImpl()); view != views_.end();
       view = views_.find(tensor.unsafeGetTensorImpl())) {
    tensor = view->second.base;
    bases.push_back(to_argument(node, tensor));
  }
  return bases;
}

/// Turns `op` into its out-of-place variant. Its result becomes the value of the changed tensor.
void Interpreter::make_functional(Node* node, Operator& op, const c10::FunctionSchema& schema,
                                  const at::Tensor& target) {
  const at::Tensor root = root_of(target);
  if (value_of(root) == nullptr && attributes_.contains(root.unsafeGetTensorImpl()))
    fail(node, fmt::format("writes data to the buffer \"{}\"", attributes_.at(root.unsafeGetTensorImpl())),
         "only batch norm may keep state");
  if (op.is_random) return;
  op.name.pop_back();
  const auto functional = torch::jit::findOperatorFor({op.name, schema.overload_name()});
  if (!functional) fail(node, "changes a tensor in place", "use the variant that returns a new tensor");
  auto operation = functional->getOperation();
  op.run = [operation](torch::jit::Stack& stack) mutable { operation(stack); };
}

void Interpreter::run_in_place(Frame& frame, Node* node, Operator op, const c10::FunctionSchema& schema,
                               const std::vector<IValue>& inputs) {
  const at::Tensor target = inputs.at(0).isTensor() ? inputs[0].toTensor() : at::Tensor();
  const bool first_alone = target.defined() && schema.returns().size() == 1 &&
                           schema.arguments()[0].alias_info() != nullptr &&
                           schema.arguments()[0].alias_info()->isWrite();
  if (!first_alone) fail(node, "writes its result to an argument", "use the variant that returns a new tensor");
  make_functional(node, op, schema, target);
  const std::vector<Argument> bases = bases_of(node, target);
  if (!bases.empty() || value_of(target) == nullptr)
    overwritten_.insert_or_assign(target.storage().unsafeGetStorageImpl(), target.storage());
  torch::jit::Stack stack(inputs.begin(), inputs.end());
  execute(node, stack);
  const bool overwrites = !op.is_random && kOverwriting.contains(op.name);
  const bool by_constant = inputs.size() < 2 || !op.arguments[1].is_value();
  if (overwrites && !by_constant) {
    overwrite(frame, node, op, target, inputs[1]);
  } else if (overwrites && !bases.empty()) {
    known_.erase(target.unsafeGetTensorImpl());
  } else {
    add_results(std::move(op), stack);
  }
  write_back(frame, node, target, bases, argument_of(target));
  set(frame, node, std::move(stack));
}

/// Returns the value of a tensor into which another tensor has been copied.
Argument Interpreter::overwrite(const Frame& frame, Node* node, const Operator& op, const at::Tensor& target,
                                const IValue& source) {
  Argument written = op.arguments[1];
  at::Tensor from = source.toTensor();
  if (from.scalar_type() != target.scalar_type()) {
    from = from.to(target.scalar_type());
    written =
        emit(frame, node, "aten::to", "dtype",
             {written, constant(int64_t(target.scalar_type())), constant(false), constant(false), constant({})}, from);
  }
  if (from.sizes() != target.sizes())
    return emit(frame, node, "aten::expand", "", {written, constant(target.sizes().vec()), constant(false)}, target);
  know(target, written.value);
  return written;
}

/// Called after the view `tensor` has got the value `written`: updates the values of its bases. `bases`: their former
/// values.
void Interpreter::write_back(const Frame& frame, Node* node, at::Tensor tensor, const std::vector<Argument>& bases,
                             Argument written) {
  for (const Argument& before : bases) {
    const View& view = views_.at(tensor.unsafeGetTensorImpl());
    const Operator& op = view.op;
    const at::Tensor base = view.base;
    const bool has_all = op.name == "aten::slice" && base.sizes() == tensor.sizes();
    if (has_all && written.is_value()) {
      know(base, written.value);
    } else {
      Way way = way_into(op, before, written, base.sizes());
      if (way.name == nullptr && written.is_value()) way = way_back(op, written, base.sizes());
      if (way.name == nullptr)
        fail(node, fmt::format("writes to a part of a tensor that {} returned", place_of(*op.node)),
             "write to a slice (y[:, 0] = z, y[:, 1:3] = z) or build a new tensor with torch.cat or torch.where");
      const bool by_dims = std::string_view(way.name) == "aten::transpose";
      written = emit(frame, node, way.name, by_dims ? "int" : "", std::move(way.arguments), base);
    }
    tensor = base;
  }
}

}  // namespace trireme::torchscript
