// Worker: the instruction `agree`.
#include <ATen/ATen.h>

#include "runtime/agreement.h"
#include "runtime/worker_state.h"

namespace trireme {

namespace {

/// All inputs of the batch, which is not loaded again after that.
std::vector<at::Tensor> read_now(Batch& batch) {
  std::vector<at::Tensor> inputs = batch.load({0, batch.samples});
  batch.load = [inputs](Range range) {
    std::vector<at::Tensor> parts;
    for (const at::Tensor& input : inputs) parts.push_back(input.narrow(0, range.begin, range.size()));
    return parts;
  };
  return inputs;
}

}  // namespace

/// Executed by all workers of the replica. No worker computes before the leader has the policy's answer. After the step only the leader touches
/// weights until the next `agree`.
void Worker::State::agree(const Prepared& prepared, const Instruction& instruction, BatchInFlight& batch) {
  ReplicaAgreement& agreement = *options.agreement;
  if (instruction.index == kBeforeStep) {
    if (rank == 0) {
      StepInput& input = batch.input;
      agreement.before_step({.step = input.own_step, .samples = input.batch.samples, .learning_rate = input.learning_rate, .ends_epoch = input.ends_epoch},
                            [&] { return read_now(input.batch); });
    }
    communicator->barrier();
    outcome.stopped = agreement.has_stopped();
    outcome.held = agreement.is_held();
    return;
  }
  replicas->settle();
  if (agreed_steps++ == 0) show(prepared, agreement.view());  // the optimizer has its state now
  agreement.note_loss(rank, outcome.loss_sum);
  communicator->barrier();
  if (rank == 0) agreement.after_step();
}

void Worker::State::show(const Prepared& prepared, ReplicaView& view) const {
  std::vector<RunningStatistics> statistics;
  for (const OpBinding& binding : prepared.bindings) {
    if (!binding.op) continue;
    const auto found = running_statistics(model.node(binding.op->node).layer->buffers(), binding.buffers);
    statistics.insert(statistics.end(), found.begin(), found.end());
  }
  view.show(rank, *replicas, earlier_batches + batches > 0, std::move(statistics), prepared.tracked_tables());
}

void Worker::show(ReplicaView& view) const { state_->show(state_->training, view); }

}  // namespace trireme
