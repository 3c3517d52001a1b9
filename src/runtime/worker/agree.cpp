#include "runtime/worker/agree.h"

#include <ATen/ATen.h>

#include <utility>
#include <vector>

#include "runtime/agreement.h"

namespace trireme {
namespace {

/// Loads all inputs of the batch. Replaces batch.load so that they are not loaded again.
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

void Agree::before_step(BatchInFlight& batch, StepOutcome& outcome) {
  ReplicaAgreement& agreement = *context_.options.agreement;
  if (context_.rank == 0) {
    StepInput& input = batch.input;
    const StepFacts facts{.step = input.own_step,
                          .samples = input.batch.samples,
                          .learning_rate = input.learning_rate,
                          .ends_epoch = input.ends_epoch};
    agreement.before_step(facts, [&] { return read_now(input.batch); });
  }
  context_.world.barrier();
  restart_optimizer_if_wanted();
  outcome.stopped = agreement.has_stopped();
  outcome.held = agreement.is_held();
}

void Agree::after_step(const PreparedProgram& prepared, const StepOutcome& outcome) {
  ReplicaAgreement& agreement = *context_.options.agreement;
  context_.replicas.settle();
  note_updates();
  if (steps_++ == 0) show(prepared, /*is_updated=*/true, agreement.view());  // the optimizer state exists now
  agreement.note(context_.rank, outcome.loss_sum, outcome.gradient_squares);
  context_.world.barrier();
  if (context_.rank == 0) agreement.after_step();
}

void Agree::restart_optimizer_if_wanted() {
  if (!*restarts_) return;
  *restarts_ = false;
  context_.replicas.restart_optimizer(updates_);
  before_restart_ = all_updates_;
}

void Agree::note_updates() {
  updates_ = batches_.trained();
  all_updates_ = batches_.all_trained();
}

void Agree::show(const PreparedProgram& prepared, bool is_updated, ReplicaView& view) {
  std::vector<RunningStatistics> statistics;
  for (const OpBinding& binding : prepared.bindings) {
    if (!binding.op) continue;
    const auto found = running_statistics(context_.model.node(binding.op->node).layer->buffers(), binding.buffers);
    statistics.insert(statistics.end(), found.begin(), found.end());
  }
  note_updates();
  const auto restart_optimizer = [restarts = restarts_] { *restarts = true; };
  view.show(context_.rank, context_.replicas, is_updated, std::move(statistics), prepared.tracked_tables(),
            restart_optimizer);
}

}  // namespace trireme
