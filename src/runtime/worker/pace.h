// How long instructions take where it is not their computing that decides: emulated slowness, and virtual time.
#pragma once

#include "program/program.h"
#include "runtime/step.h"
#include "runtime/worker/context.h"

namespace trireme {

/// In real time a slowed worker (StepInput::slowness) sleeps after what it computed. In virtual time
/// (WorkerOptions::times) the worker's clock goes on by what each instruction computes.
class Pace {
 public:
  /// `context` outlives it; its world has virtual time where there are times.
  explicit Pace(const WorkerContext& context);

  /// Before and after the instruction is executed: virtual time passes in one of them.
  void before(const Program& program, const Instruction& instruction, const StepInput& input) const;
  void after(const Program& program, const Instruction& instruction, const StepInput& input) const;
  /// What an emulated slowness adds to `busy` seconds of an instruction, after it. Many short ones are slept for
  /// together.
  void sleep(const Instruction& instruction, double busy, double slowness);

 private:
  void pass(const Program& program, const Instruction& instruction, const StepInput& input) const;

  const WorkerContext& context_;
  double owed_ = 0;  ///< seconds that an emulated slowness has not been given yet; below 0: given in advance
};

}  // namespace trireme
