// Measures the seconds of a step by kind, and records its timeline.
#pragma once

#include <cstdint>

#include "program/program.h"
#include "runtime/step.h"
#include "runtime/worker/context.h"

namespace trireme {

/// Fills in times, bytes and events of an outcome. On a GPU an instruction ends when the host has launched it. The time
/// for which the worker waits for the GPU at the end of the step counts as computing. A traced step waits after each
/// instruction. Between processes, tensors leave the GPU through the host, which waits for them; that wait counts as
/// computing, too. Instructions follow each other without a gap: one begins when the previous one ends. Call in this
/// order: begin; for each instruction begin_instruction, end_work, end_instruction; end.
class StepMeter {
 public:
  /// References must outlive this object. `outcome` must be empty at each begin().
  StepMeter(const WorkerContext& context, StepOutcome& outcome) : context_(context), outcome_(outcome) {}

  void begin(const Program& program, bool trace);
  /// True if the last instruction waited for other workers. A core that has just woken is slower for a while.
  bool has_waited() const;
  /// Counts the time since the last instruction as computing, but not as a part of the next one.
  void end_own_work();
  void begin_instruction(const Instruction& instruction);
  /// Returns the seconds for which the instruction kept the worker busy, without waiting and exchanging.
  double end_work();
  /// Counts the time since end_work() as busy time too.
  void end_instruction(const Instruction& instruction);
  void end();

 private:
  bool waits_for_gpu_first(OpCode code) const;
  double waits() const { return context_.world.count().wait_seconds + context_.replicas.counts().wait_seconds; }
  /// Returns the bytes sent so far, including those of sub-groups.
  int64_t bytes() const { return context_.world.count().bytes_sent + context_.replicas.counts().bytes_sent; }
  int64_t record_transfers();
  void record(const Instruction& instruction, EventKind kind, double end, int64_t bytes);

  const WorkerContext& context_;
  StepOutcome& outcome_;
  const Program* program_ = nullptr;
  bool trace_ = false;
  int64_t bytes_before_ = 0;  ///< bytes before the step
  double hidden_before_ = 0;
  // of the current instruction:
  double begin_ = 0;
  double waits_before_ = 0, exchange_before_ = 0;
  int64_t bytes_at_ = 0;  ///< bytes before it, if traced
  double waited_ = 0, exchanged_ = 0;
};

}  // namespace trireme
