// Serialises a worker's outcome of a step, for messages between processes of one program.
#pragma once

#include <string>
#include <vector>

#include "base/memory.h"
#include "runtime/step.h"

namespace trireme {

/// One rank's post to the step records (train/step_records.h).
struct PostedOutcome {
  int64_t step = 0;
  bool evaluation = false;
  StepOutcome outcome = {};
  double load_seconds = 0;
  bool end_requested = false;  ///< this rank has received a signal to end
};

/// Preserves the bits of all numbers, including those that are not finite.
std::string to_text(const PostedOutcome& posted);
std::string to_text(const MemoryUse& use);

/// Errors (run): the bytes are not a serialised outcome.
PostedOutcome outcome_from(const std::string& text);
MemoryUse memory_from(const std::string& text);

}  // namespace trireme
