// Replays a worker's training step instead of launching every operator on its device again. The step of a small model
// then takes as long as the device computes, not as long as the host needs to launch hundreds of operators.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/graph/device_graph.h"
#include "runtime/optimizer.h"
#include "runtime/worker/batches_in_flight.h"
#include "runtime/worker/context.h"
#include "runtime/worker/deferred_numbers.h"

namespace trireme {

/// The steps of one worker under one program. The first steps run as usual. Then one is recorded. Later steps with the
/// same number of samples are replayed. Belongs to the worker's thread.
class StepGraph {
 public:
  /// Returns why steps of the program cannot be recorded on this thread's device; "" if they can.
  static std::string obstacle(const Program& program, const WorkerContext& context);

  StepGraph(const WorkerContext& context, DeferredNumbers& numbers);

  enum class Way { usual, record, replay };
  Way way_of(const StepInput& input, bool traced) const;
  /// Call it after a usual step. `reads_step`: a layer used the step's number, so that no step can be replayed.
  void note_usual(const StepInput& input, bool traced, bool reads_step);

  /// Copies the batch and the rates to the memory from which the recorded step reads them. `batch` then loads from that
  /// memory. `update`: the number of the update that the step makes, from 1.
  void prepare(BatchInFlight& batch, int64_t update);
  /// Records a step: `ask` executes the step's instructions once, and the device records them instead of computing. If
  /// it throws, no step has been recorded.
  void record(const std::function<void()>& ask);
  /// Computes the step and adds its numbers to `outcome`. Waits for the device.
  void replay(StepOutcome& outcome);

 private:
  const WorkerContext& context_;
  DeferredNumbers& numbers_;
  std::unique_ptr<RecordingStream> stream_;
  std::unique_ptr<DeviceGraph> graph_;  ///< null before the recording
  bool impossible_ = false;
  int64_t usual_steps_ = 0;  ///< in sequence, with samples_ samples
  int64_t samples_ = 0;
  std::vector<at::Tensor> inputs_;
  RecordedRates rates_;
  at::Tensor rates_memory_;
  NumbersOnDevice recorded_;
};

}  // namespace trireme
