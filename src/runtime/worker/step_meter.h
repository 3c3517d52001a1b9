// What a step took, by kind of time, and its timeline.
#pragma once

#include <cstdint>

#include "program/program.h"
#include "runtime/step.h"
#include "runtime/worker/context.h"

namespace trireme {

/// Fills in times, bytes and events of an outcome. Instructions follow each other without a gap: one begins when the
/// one before it ends. Calls in order: begin; for each instruction begin_instruction, end_work, end_instruction; end.
class StepMeter {
 public:
  /// References outlive it. `outcome` is empty at each begin().
  StepMeter(const WorkerContext& context, StepOutcome& outcome) : context_(context), outcome_(outcome) {}

  void begin(const Program& program, bool trace);
  void begin_instruction();
  /// Seconds that the instruction kept the worker busy: neither waiting nor exchanging.
  double end_work();
  /// What passes since end_work() is busy time too.
  void end_instruction(const Instruction& instruction);
  void end();

 private:
  double waits() const { return context_.world.count().wait_seconds + context_.replicas.counts().wait_seconds; }
  /// Sent so far; counts of sub-groups are included.
  int64_t bytes() const { return context_.world.count().bytes_sent + context_.replicas.counts().bytes_sent; }
  int64_t record_transfers();
  void record(const Instruction& instruction, EventKind kind, double end, int64_t bytes);

  const WorkerContext& context_;
  StepOutcome& outcome_;
  const Program* program_ = nullptr;
  bool trace_ = false;
  int64_t bytes_before_ = 0;  ///< the step
  double hidden_before_ = 0;
  // of the instruction
  double begin_ = 0;
  double waits_before_ = 0, exchange_before_ = 0;
  int64_t bytes_at_ = 0;  ///< before it, when traced
  double waited_ = 0, exchanged_ = 0;
};

}  // namespace trireme
