// Recognises norms: batch norm with the addition and ReLU that may follow it, layer norm, group norm.
#include <algorithm>

#include "model/import/draft.h"
#include "trireme/layers/batch_norm.h"
#include "trireme/layers/group_norm.h"
#include "trireme/layers/layer_norm.h"

namespace trireme::torchscript {
namespace {

bool is_of(const Draft& draft, int index, const char* name) { return draft.op(index).name == name; }

/// Returns the operator `name` if it is the only reader of a value; else nullopt.
std::optional<int> followed_by(const Draft& draft, ValueId id, const char* name) {
  const auto reader = draft.only_reader(id);
  return reader && is_of(draft, *reader, name) && !draft.is_covered(*reader) ? reader : std::nullopt;
}

/// Returns the value that the addition `op` adds to `id`. nullopt if `op` is not a plain sum of two values of one
/// shape, or if both are the same value.
std::optional<ValueId> other_summand(const Draft& draft, const Operator& op, ValueId id) {
  const Argument *a = op.find("self"), *b = op.find("other");
  if (a == nullptr || b == nullptr || !a->is_value() || !b->is_value() || number_argument(op, "alpha").value_or(1) != 1)
    return std::nullopt;
  const ValueId other = a->value == id ? b->value : a->value;
  const bool alike = draft.form(other) && draft.form(other) == draft.form(id);
  return other != id && alike ? std::optional(other) : std::nullopt;
}

bool recognise_batch_norm(Draft& draft, int index) {
  const Operator& op = draft.op(index);
  const Form* input = draft.form(op.find("input"));
  const std::string module = draft.module_of(op.find("weight"), op.find("bias"));
  const Argument *mean = op.find("running_mean"), *momentum = op.find("momentum");
  const bool fits =
      input != nullptr && (input->is_image || (!input->is_collapsed() && input->batch_dim == 0 && !input->is_folded));
  if (!op.training_flag || !fits || module.empty() || op.find("bias") == nullptr || mean == nullptr ||
      momentum == nullptr)
    return false;
  if (mean->attribute != module + ".running_mean") return false;
  BatchNormOptions options{.momentum = number_argument(op, "momentum").value(),
                           .epsilon = number_argument(op, "eps").value()};
  Item item{.layer = nullptr, .inputs = {op.find("input")->value}, .output = op.result(), .operators = {index}};
  if (const auto sum = followed_by(draft, item.output, "aten::add"))
    if (const auto other = other_summand(draft, draft.op(*sum), item.output)) {
      options.residual = true;
      item.inputs.push_back(*other);
      item.operators.push_back(*sum);
      item.output = draft.op(*sum).result();
    }
  if (const auto relu = followed_by(draft, item.output, "aten::relu")) {
    options.relu = true;
    item.operators.push_back(*relu);
    item.output = draft.op(*relu).result();
  }
  item.layer = std::make_shared<const BatchNorm>(draft.new_name(module), input->sample[0], options);
  draft.add(std::move(item));
  return true;
}

bool recognise_layer_norm(Draft& draft, int index) {
  const Operator& op = draft.op(index);
  const Form* input = draft.form(op.find("input"));
  const Argument* shape = op.find("normalized_shape");
  const std::string module = draft.module_of(op.find("weight"), op.find("bias"));
  if (input == nullptr || shape == nullptr || !shape->constant.isIntList() || module.empty() ||
      op.find("bias") == nullptr)
    return false;
  const auto sizes = shape->constant.toIntVector();
  if (sizes.size() != 1 || input->sample.back() != sizes[0] ||
      input->dim_of(int(input->extents.size()) - 1) < input->batch_dim)
    return false;
  draft.add({std::make_shared<const LayerNorm>(draft.new_name(module), sizes[0],
                                               LayerNormOptions{.epsilon = number_argument(op, "eps").value()}),
             {op.find("input")->value},
             op.result(),
             {index}});
  return true;
}

bool recognise_group_norm(Draft& draft, int index) {
  const Operator& op = draft.op(index);
  const Form* input = draft.form(op.find("input"));
  const auto groups = int_argument(op, "num_groups");
  const std::string module = draft.module_of(op.find("weight"), op.find("bias"));
  if (input == nullptr || !input->is_image || !groups || module.empty() || op.find("bias") == nullptr) return false;
  draft.add({std::make_shared<const GroupNorm>(
                 draft.new_name(module), input->sample[0],
                 GroupNormOptions{.groups = *groups, .epsilon = number_argument(op, "eps").value()}),
             {op.find("input")->value},
             op.result(),
             {index}});
  return true;
}

}  // namespace

bool recognise_norm(Draft& draft, int index) {
  if (is_of(draft, index, "aten::batch_norm")) return recognise_batch_norm(draft, index);
  if (is_of(draft, index, "aten::layer_norm")) return recognise_layer_norm(draft, index);
  if (is_of(draft, index, "aten::group_norm")) return recognise_group_norm(draft, index);
  return false;
}

}  // namespace trireme::torchscript
