// What a worker did in a step, as bytes between processes of one program.
#pragma once

#include <string>
#include <vector>

#include "base/memory.h"
#include "runtime/step.h"

namespace trireme {

/// One rank's post to the records (train/step_records.h).
struct PostedOutcome {
  int64_t step = 0;
  bool evaluation = false;
  StepOutcome outcome = {};
  double load_seconds = 0;
  bool asked_to_end = false;  ///< this rank was, by a signal
};

/// Numbers keep their bits, also those that are not finite.
std::string to_text(const PostedOutcome& posted);
std::string to_text(const MemoryUse& use);

/// Errors (run): bytes that are no such thing.
PostedOutcome outcome_from(const std::string& text);
MemoryUse memory_from(const std::string& text);

}  // namespace trireme
