// Interpreter: nn.EmbeddingBag with bags of one length, recorded as an embedding and a sum, mean or maximum over each
// bag.
#include <ATen/ATen.h>

#include <optional>

#include "model/import/interpreter_state.h"
#include "model/import/split_rules.h"

namespace trireme::torchscript {
namespace {

using c10::IValue;

enum Input { kWeight, kIndices, kOffsets, kScaled, kMode, kSparse, kSampleWeights, kWithLast, kPadding };
enum Mode { kSum, kMean, kMaximum };
constexpr int64_t kPositions = 1;  // dim of [bags, positions, features]

/// Returns the number of bags; nullopt if they differ in length.
std::optional<int64_t> count_bags(const at::Tensor& indices, const at::Tensor& offsets, bool with_last) {
  const int64_t bags = offsets.numel() - int64_t(with_last), all = indices.numel();
  if (indices.dim() != 1 || offsets.dim() != 1 || bags <= 0 || all == 0 || all % bags != 0) return std::nullopt;
  const at::Tensor even = at::arange(offsets.numel(), offsets.options()).mul(all / bags);
  return at::equal(offsets, even) ? std::optional(bags) : std::nullopt;
}

}  // namespace

/// Returns indices [bags, positions]. Most modules flatten them before; then the argument before that reshape is used.
Argument Interpreter::bags_of(const Frame& frame, Node* node, const Argument& flat, const at::Tensor& indices) {
  const int producer = tape_.graph.value(flat.value).producer;
  if (producer >= 0) {
    const Operator& op = tape_.graph.operators[size_t(producer)];
    const bool flattens = is_reshape(op.name) && op.arguments[0].is_value();
    if (flattens && tape_.graph.value(op.arguments[0].value).sizes == indices.sizes().vec()) return op.arguments[0];
  }
  return emit(frame, node, "aten::reshape", "", {flat, constant(indices.sizes().vec())}, indices);
}

void Interpreter::run_bags(Frame& frame, Node* node, const std::vector<IValue>& inputs) {
  const at::Tensor &weight = inputs.at(kWeight).toTensor(), &offsets = inputs.at(kOffsets).toTensor();
  const Argument table = to_argument(node, inputs[kWeight]), flat = to_argument(node, inputs[kIndices]);
  const bool with_last = inputs.at(kWithLast).toBool(), is_constant = value_of(offsets) == nullptr;
  const auto bags = is_constant ? count_bags(inputs[kIndices].toTensor(), offsets, with_last) : std::nullopt;
  if (!bags || !flat.is_value())
    fail(node, "takes bags of different lengths (offsets)",
         "give nn.EmbeddingBag a batch [n, t] without offsets, padded with padding_idx");
  const bool pads = inputs.size() > kPadding && !inputs[kPadding].isNone();
  const int64_t mode = inputs.at(kMode).toInt();
  if (inputs.at(kScaled).toBool() || !inputs.at(kSampleWeights).isNone() || (mode == kMaximum && pads))
    fail(node, "scales gradients by frequency, weighs its samples, or takes the maximum over padded bags",
         "write it as nn.Embedding and a sum, mean or maximum");

  torch::jit::Stack stack(inputs.begin(), inputs.end());
  execute(node, stack);
  const int64_t padding = pads ? inputs[kPadding].toInt() : -1,
                row = padding < 0 && pads ? padding + weight.size(0) : padding;
  const at::Tensor indices = inputs[kIndices].toTensor().reshape({*bags, -1});
  const Argument ids = bags_of(frame, node, flat, indices), positions = constant(std::vector<int64_t>{kPositions});
  at::Tensor words = at::embedding(weight, indices, row);
  Argument embedded =
      emit(frame, node, "aten::embedding", "", {table, ids, constant(row), constant(false), constant(false)}, words);
  const Argument keep_dim = constant(false), same_type = constant({});
  if (!pads) {
    const char* name = mode == kSum ? "aten::sum" : mode == kMean ? "aten::mean" : "aten::amax";
    std::vector<Argument> arguments{embedded, positions, keep_dim};
    if (mode != kMaximum) arguments.push_back(same_type);
    emit(frame, node, name,
         mode == kSum    ? "dim_IntList"
         : mode == kMean ? "dim"
                         : "",
         std::move(arguments), stack[0].toTensor());
  } else {
    const at::Tensor kept = indices.ne(row).unsqueeze(-1), weights = kept.to(weight.scalar_type());
    const Argument is_kept = emit(frame, node, "aten::ne", "Scalar", {ids, constant(row)}, kept.squeeze(-1));
    const Argument column = emit(frame, node, "aten::unsqueeze", "", {is_kept, constant(-1)}, kept);
    const Argument number =
        emit(frame, node, "aten::to", "dtype",
             {column, constant(int64_t(weight.scalar_type())), constant(false), constant(false), same_type}, weights);
    words = words * weights;
    embedded = emit(frame, node, "aten::mul", "Tensor", {embedded, number}, words);
    const at::Tensor sum = mode == kSum ? stack[0].toTensor() : words.sum(kPositions), count = weights.sum(kPositions);
    const Argument total =
        emit(frame, node, "aten::sum", "dim_IntList", {embedded, positions, keep_dim, same_type}, sum);
    if (mode == kMean) {
      const Argument counted =
          emit(frame, node, "aten::sum", "dim_IntList", {number, positions, keep_dim, same_type}, count);
      const Argument divisor = emit(frame, node, "aten::clamp_min", "", {counted, constant(1)}, count.clamp_min(1));
      emit(frame, node, "aten::div", "Tensor", {total, divisor}, stack[0].toTensor());
    }
  }
  // the other results are for its own gradient, which no other operator reads
  for (size_t i = 1; i < stack.size(); ++i) stack[i] = IValue();
  set(frame, node, std::move(stack));
}

}  // namespace trireme::torchscript
