// Loads samples and computes layers, forward and backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

#include "program/program.h"
#include "runtime/layer_call.h"
#include "runtime/step.h"
#include "runtime/worker/batches_in_flight.h"
#include "runtime/worker/carried_states.h"
#include "runtime/worker/context.h"
#include "runtime/worker/deferred_numbers.h"
#include "runtime/worker/prepared_program.h"

namespace trireme {

/// Executes the computing instructions of one program. `part` is a micro-batch of `batch`. Ends between two layers if
/// another worker has failed (WorkerContext::stop_if_aborted).
class LayerExecution {
 public:
  /// References must outlive this object. Losses and metrics of the samples that this worker counts are added to
  /// `outcome`.
  LayerExecution(const WorkerContext& context, PreparedProgram& prepared, DeferredNumbers& numbers,
                 StepOutcome& outcome);

  void load(int stage, const BatchInFlight& batch, MicroBatch& part);
  void forward(const Instruction& instruction, const BatchInFlight& batch, MicroBatch& part);
  void recompute(SegmentId segment, const BatchInFlight& batch, MicroBatch& part);
  void backward(const Instruction& instruction, const BatchInFlight& batch, MicroBatch& part);
  void backward_weight(SegmentId segment, const BatchInFlight& batch, MicroBatch& part);
  /// Copies the buffers of the op from the data axis' first worker.
  void synchronize_buffers(OpId id);
  /// True if since the last call a layer has read the step's number or reported a number from the host. Such a step
  /// cannot be replayed.
  bool take_reads_step() { return std::exchange(reads_step_, false); }

  CarriedStates& states() { return states_; }
  const CarriedStates& states() const { return states_; }

 private:
  /// How a layer runs: for the first time, again, or only to put into its call what backward needs.
  enum class Run { first, again, restoring };
  void run_layer(OpId id, const BatchInFlight& batch, MicroBatch& part, Run run);
  void backward_op(OpId id, const BatchInFlight& batch, MicroBatch& part, bool defer_parameters);
  void await_weights(SegmentId segment, const BatchInFlight& batch);
  void set_call(const OpBinding& binding, const BatchInFlight& batch, const MicroBatch& part, LayerCall& call) const;
  void bring_states(OpId id, const BatchInFlight& batch, MicroBatch& part, RuntimeLayerCall& call);
  Box output_box(const Op& op, const BatchInFlight& batch, const MicroBatch& part) const;
  /// Returns LayerCall's micro_batch and micro_batches.
  std::pair<int, int> place_among_micro_batches(const Op& op, const BatchInFlight& batch, const MicroBatch& part) const;
  at::Tensor empty_output(const Op& op, const Box& box) const;
  at::Tensor loss_gradient(const LayerCall& call) const;
  const Op& op_at(OpId id) const { return program_.ops[size_t(id)]; }

  const WorkerContext& context_;
  PreparedProgram& prepared_;
  const Program& program_;
  DeferredNumbers& numbers_;
  bool reads_step_ = false;
  const CallContext call_context_;
  CarriedStates states_;
};

}  // namespace trireme
