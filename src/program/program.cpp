#include "program/program.h"

#include <fmt/format.h>

#include "tensor/redistribute.h"

namespace trireme {

const char* name_of(OpCode code) {
  switch (code) {
    case OpCode::load_batch: return "load batch";
    case OpCode::forward: return "forward";
    case OpCode::recompute: return "recompute";
    case OpCode::backward: return "backward";
    case OpCode::backward_input: return "backward of inputs";
    case OpCode::backward_weight: return "backward of weights";
    case OpCode::redistribute: return "redistribute";
    case OpCode::send: return "send";
    case OpCode::receive: return "receive";
    case OpCode::prefetch_weights: return "prefetch weights";
    case OpCode::gather_weights: return "gather weights";
    case OpCode::release_weights: return "release weights";
    case OpCode::reduce_gradients: return "reduce gradients";
    case OpCode::clip_gradients: return "clip gradients";
    case OpCode::optimizer_step: return "optimizer step";
    case OpCode::synchronize_buffers: return "synchronize buffers";
    case OpCode::agree: return "agree";
  }
  return "?";
}

MoveEnds ends_of(const Move& move, const Program& program, bool adjoint) {
  if (adjoint) return {move.gradient_from, move.gradient_to};
  return {program.values[size_t(move.from)].layout, program.values[size_t(move.to)].layout};
}

std::string Program::describe(const Instruction& instruction, const Model& model) const {
  std::string text = name_of(instruction.code);
  switch (instruction.code) {
    case OpCode::forward:
    case OpCode::recompute:
    case OpCode::backward:
    case OpCode::backward_input:
    case OpCode::backward_weight: {
      const auto& list = segments[size_t(instruction.index)].ops;
      text += " " + model.node(ops[size_t(list.front())].node).name;
      if (list.size() > 1) text += ".." + model.node(ops[size_t(list.back())].node).name;
      break;
    }
    case OpCode::redistribute:
    case OpCode::send:
    case OpCode::receive: {
      const Move& move = moves[size_t(instruction.index)];
      MoveEnds ends = ends_of(move, *this, instruction.adjoint);
      text += fmt::format(" {}{}", instruction.adjoint ? "gradient of " : "", model.node(values[size_t(move.from)].node).name);
      if (instruction.code == OpCode::redistribute) text += fmt::format(" ({})", name_of(classify(ends.from, ends.to)));
      break;
    }
    case OpCode::prefetch_weights:
    case OpCode::gather_weights:
    case OpCode::release_weights:
    case OpCode::reduce_gradients:
    case OpCode::optimizer_step: text += fmt::format(" bucket {}", instruction.index); break;
    case OpCode::synchronize_buffers: text += " " + model.node(ops[size_t(instruction.index)].node).name; break;
    case OpCode::agree: text += instruction.index == kBeforeStep ? " before the step" : " after the step"; break;
    default: break;
  }
  return text;
}

}  // namespace trireme
