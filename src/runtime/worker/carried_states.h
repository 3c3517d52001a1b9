// The state that layers carry from step to step.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "program/program.h"
#include "runtime/layer_call.h"
#include "runtime/migrate/training_state.h"
#include "runtime/worker/batches_in_flight.h"
#include "runtime/worker/context.h"

namespace trireme {

/// The carried states of one program. Tensors are this worker's part: its rows of a micro-batch and, on a tensor axis,
/// its features.
class CarriedStates {
 public:
  /// References must outlive this object.
  CarriedStates(const WorkerContext& context, const Program& program) : context_(context), program_(program) {}

  /// Gives a call the state that the previous step left, or zeros in the first step and when a stream begins again.
  /// Errors (run): the micro-batch has another size than the one that left the state.
  void bring(const Op& op, const BatchInFlight& batch, const MicroBatch& part, RuntimeLayerCall& call);
  /// Stores the state that the call leaves, if its layer has one.
  void keep(const Op& op, const MicroBatch& part, const RuntimeLayerCall& call);

  /// Sets the number of samples of a global batch, which is the number of rows of the full tensors.
  void note_rows(int64_t rows) { rows_ = rows; }
  /// Adds the op's states with their regions in the full tensors; resume() reads them from there.
  void add_held(const Op& op, std::vector<HeldPart>& held) const;
  void resume(const Op& op, const TrainingState& from);

 private:
  const WorkerContext& context_;
  const Program& program_;
  std::map<std::pair<NodeId, int>, std::vector<at::Tensor>> states_;  ///< by node and micro-batch
  int64_t rows_ = 0;
};

}  // namespace trireme
