// Durations of computations, for workers in modelled time (comm/virtual/virtual_time.h).
#pragma once

#include <cstdint>

#include "program/program.h"

namespace trireme {

/// Implemented by src/cost. Called by one thread at a time.
class InstructionTimes {
 public:
  virtual ~InstructionTimes() = default;
  /// Returns the seconds for which `rank` computes when it executes `instruction` on its part of a batch of `samples`
  /// samples; 0 for an instruction that only moves bytes.
  virtual double seconds(int rank, const Program& program, const Instruction& instruction, int64_t samples) = 0;
  /// Returns how many times as long a worker computes while sums of its gradients travel.
  virtual double slowdown_beside_sums() const = 0;
};

}  // namespace trireme
