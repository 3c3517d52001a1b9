// Predicts a step of a plan without an agreement, by simulating its program.
#pragma once

#include <cstdint>
#include <optional>

#include "forecast/cost_source.h"
#include "forecast/memory_beside.h"
#include "metrics/result.h"
#include "trireme/plan.h"

namespace trireme {

struct PredictionOptions {
  int steps = 3;
  bool timeline = true;
  bool drawing = true;  ///< RunResult::schedule; it takes longer than the rest on thousands of devices
  /// Predict RunResult::memory and whether it fits. Plans with an agreement ignore false.
  bool memory = true;
  AgreementMemory agreement = {};  ///< of the policy whose inner plan this is, beside the first worker's training
  std::optional<int64_t> epoch_samples = {};  ///< samples of an epoch; set: its seconds are predicted
};

/// For callers that need the row's numbers only.
inline PredictionOptions without_pictures() { return {.timeline = false, .drawing = false}; }

/// What a plan needs of a device's memory.
struct MemoryNeed {
  int device = 0;  ///< number in the described cluster; without one, the worker's
  /// Bytes of tensors, counted from the plan's program (cost/memory.h), and on a described device what their allocator
  /// holds beside them.
  int64_t peak = 0;
  int64_t limit = 0;  ///< bytes that the device has for them; 0: no limit

  double share() const { return limit > 0 ? double(peak) / double(limit) : 0; }
  int64_t missing() const { return limit > 0 && peak > limit ? peak - limit : 0; }
};

struct ProgramPrediction {
  RunResult row;
  int64_t needed_memory = 0;  ///< the most bytes that a device needs: MemoryNeed::peak
  MemoryNeed tightest;        ///< of the device that needs the greatest share of its memory
  MemoryNeed lacks_most;      ///< of the device that lacks the most bytes; the tightest if all have enough
};

/// As predict(), for a plan without an agreement.
ProgramPrediction predict_program(const RunSpec& experiment, const Model& model, const Plan& plan,
                                  const CostSource& source, const PredictionOptions& options = {});

}  // namespace trireme
