// How long computing takes, for workers in virtual time (comm/virtual/virtual_time.h).
#pragma once

#include <cstdint>

#include "program/program.h"

namespace trireme {

/// Implemented by whoever knows (src/cost does). Called by one thread at a time.
class InstructionTimes {
 public:
  virtual ~InstructionTimes() = default;
  /// Seconds that `rank` computes for an instruction on its part of a batch of so many samples; 0 of one that only
  /// moves bytes.
  virtual double seconds(int rank, const Program& program, const Instruction& instruction, int64_t samples) = 0;
};

}  // namespace trireme
