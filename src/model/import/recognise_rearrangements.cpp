// Recognises operators that only change the order or shape of elements. The effect of a chain of them on a layer's
// tensor is found by running the chain on numbered elements.
#include <ATen/ATen.h>

#include "model/import/draft.h"
#include "model/import/split_rules.h"
#include "trireme/layers/flatten.h"
#include "trireme/layers/image_tokens.h"

namespace trireme::torchscript {

bool run_operators(const Draft& draft, const std::vector<int>& operators, std::map<ValueId, at::Tensor>& tensors) {
  const auto look_up = [&](ValueId id) { return tensors.at(id); };
  const auto constant = [&](const Argument& argument) {
    const at::Tensor tensor = constant_tensor(argument, kProbeBatch);
    return tensor.scalar_type() == draft.file.dtype ? tensor.to(at::kDouble) : tensor;
  };
  try {
    for (int index : operators) {
      const Operator& op = draft.op(index);
      if (is_reshape(op.name)) {
        tensors[op.result()] = tensors.at(op.arguments[0].value).reshape(draft.value(op.result()).sizes);
        continue;
      }
      if (op.name == "aten::dropout") {
        tensors[op.result()] = tensors.at(op.arguments[0].value);
        continue;
      }
      torch::jit::Stack stack;
      for (size_t i = 0; i < op.arguments.size(); ++i) {
        stack.push_back(instantiate(op.arguments[i], kProbeBatch, look_up, constant));
        const bool names_dtype = op.argument_names[i] == "dtype" && stack.back().isInt();
        if (names_dtype && stack.back().toInt() == int64_t(draft.file.dtype)) stack.back() = int64_t(at::kDouble);
      }
      op.run(stack);
      size_t next = 0;
      for (const c10::IValue& output : stack) {
        if (output.isTensor() && next < op.results.size()) tensors[op.results[next++]] = output.toTensor();
        if (output.isTensorList())
          for (const at::Tensor& tensor : output.toTensorVector())
            if (next < op.results.size()) tensors[op.results[next++]] = tensor;
      }
    }
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

namespace {

bool is_rearrangement(const Draft& draft, int index) {
  const Operator& op = draft.op(index);
  return moves_elements(op.name) && !draft.is_covered(index) && op.results.size() == 1 &&
         draft.form(&op.arguments[0]) != nullptr && draft.form(op.result()).has_value();
}

/// Returns `index` and the moves after it, each the only reader of the one before.
std::vector<int> chain_from(const Draft& draft, int index) {
  std::vector<int> chain{index};
  for (auto next = draft.only_reader(draft.op(index).result()); next && is_rearrangement(draft, *next);
       next = draft.only_reader(draft.op(*next).result()))
    chain.push_back(*next);
  return chain;
}

enum class Rearrangement { none, identity, tokens, flat };

/// Returns the effect of a chain on a layer's tensor.
Rearrangement rearrangement_of(const Draft& draft, const std::vector<int>& chain) {
  const ValueId from = draft.op(chain.front()).arguments[0].value, to = draft.op(chain.back()).result();
  const Form &input = *draft.form(from), &output = *draft.form(to);
  Shape sizes = input.sample;
  sizes.insert(sizes.begin(), kProbeBatch);
  const at::Tensor numbered =
      at::arange(kProbeBatch * element_count(input.sample), at::TensorOptions().dtype(at::kDouble)).view(sizes);
  std::map<ValueId, at::Tensor> tensors{{from, as_value(numbered, input, input.extents)}};
  if (!run_operators(draft, chain, tensors)) return Rearrangement::none;
  const at::Tensor moved = as_layer_tensor(tensors.at(to), output, output.extents, kProbeBatch);
  if (input.is_image == output.is_image && at::equal(moved, numbered)) return Rearrangement::identity;
  if (output.sample.size() == 1 && at::equal(moved, numbered.reshape(moved.sizes()))) return Rearrangement::flat;
  if (input.is_image && output.sample.size() == 2 &&
      at::equal(moved, numbered.permute({0, 2, 3, 1}).reshape({kProbeBatch, -1, sizes[1]})))
    return Rearrangement::tokens;
  return Rearrangement::none;
}

}  // namespace

bool recognise_rearrangement(Draft& draft, int index) {
  if (!is_rearrangement(draft, index)) return false;
  const ValueId from = draft.op(index).arguments[0].value;
  for (std::vector<int> chain = chain_from(draft, index); !chain.empty(); chain.pop_back()) {
    const Operator& last = draft.op(chain.back());
    const Rearrangement kind = rearrangement_of(draft, chain);
    if (kind == Rearrangement::none) continue;
    if (kind == Rearrangement::identity) {
      draft.alias(last.result(), from);
      for (int covered : chain) draft.cover(covered);
    } else if (kind == Rearrangement::flat) {
      draft.add({std::make_shared<const Flatten>(draft.new_name(last, "flatten")), {from}, last.result(), chain});
    } else {
      draft.add({std::make_shared<const ImageTokens>(draft.new_name(last, "tokens")), {from}, last.result(), chain});
    }
    return true;
  }
  return false;
}

}  // namespace trireme::torchscript
