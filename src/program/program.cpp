#include "program/program.h"

#include <fmt/format.h>

#include <algorithm>

#include "tensor/redistribute.h"

namespace trireme {

RedistributionEnds ends_of(const Redistribution& redistribution, const Program& program, bool adjoint) {
  if (adjoint) return {redistribution.gradient_from, redistribution.gradient_to};
  return {program.values[size_t(redistribution.from)].layout, program.values[size_t(redistribution.to)].layout};
}

const RecomputedRun* Program::run_begun_by(SegmentId segment) const {
  const int run = segments[size_t(segment)].run;
  if (run < 0 || recomputed_runs[size_t(run)].segments.front() != segment) return nullptr;
  return &recomputed_runs[size_t(run)];
}

bool Program::is_restored(SegmentId segment, OpId op) const {
  const int run = segments[size_t(segment)].run;
  if (run < 0) return false;
  const std::vector<OpId>& restored = recomputed_runs[size_t(run)].restored;
  return std::binary_search(restored.begin(), restored.end(), op);
}

std::string Program::describe(const Instruction& instruction, const Model& model) const {
  const OpCodeDescription& code = description_of(instruction.code);
  std::string text = code.name;
  switch (code.operand) {
    case Operand::segment: {
      const auto& list = segments[size_t(instruction.index)].ops;
      text += " " + model.node(ops[size_t(list.front())].node).name;
      if (list.size() > 1) text += ".." + model.node(ops[size_t(list.back())].node).name;
      break;
    }
    case Operand::redistribution: {
      const Redistribution& redistribution = redistributions[size_t(instruction.index)];
      const RedistributionEnds ends = ends_of(redistribution, *this, instruction.adjoint);
      text += fmt::format(" {}{}", instruction.adjoint ? "gradient of " : "",
                          model.node(values[size_t(redistribution.from)].node).name);
      if (code.event == EventKind::redistribute) text += fmt::format(" ({})", name_of(classify(ends.from, ends.to)));
      break;
    }
    case Operand::bucket: text += fmt::format(" bucket {}", instruction.index); break;
    case Operand::op: text += " " + model.node(ops[size_t(instruction.index)].node).name; break;
    case Operand::end_of_step: text += instruction.index == kBeforeStep ? " before the step" : " after the step"; break;
    case Operand::nothing:
    case Operand::stage: break;
  }
  return text;
}

}  // namespace trireme
