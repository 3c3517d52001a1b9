// Adjusts the duration of instructions: emulated slowness, and modelled time.
#pragma once

#include "program/program.h"
#include "runtime/step.h"
#include "runtime/worker/context.h"

namespace trireme {

/// In real time a slowed worker (StepInput::slowness) sleeps after its computations. In modelled time
/// (WorkerOptions::times) the worker's clock advances by the duration of each instruction.
class Pace {
 public:
  /// `context` must outlive this object. If its options have times, its world must have modelled time.
  explicit Pace(const WorkerContext& context);

  /// Call them before and after the instruction is executed. Modelled time advances in one of them.
  void before(const Program& program, const Instruction& instruction, const StepInput& input) const;
  void after(const Program& program, const Instruction& instruction, const StepInput& input) const;
  /// Sleeps for what an emulated slowness adds to an instruction that took `busy` seconds. Call it after the
  /// instruction. Short sleeps are accumulated.
  void sleep(const Instruction& instruction, double busy, double slowness);

 private:
  void pass(const Program& program, const Instruction& instruction, const StepInput& input) const;

  const WorkerContext& context_;
  double owed_ = 0;  ///< seconds of emulated slowness not yet slept; negative: slept in advance
};

}  // namespace trireme
