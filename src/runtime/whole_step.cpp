#include "runtime/whole_step.h"

#include <ATen/ATen.h>

#include <utility>

#include "base/memory.h"
#include "runtime/worker_state.h"

namespace trireme {

std::string obstacle_to_whole_steps(const Program& program, const Model& model) {
  if (!program.private_replicas) return "workers share one copy of the weights";
  if (program.optimizer_sharding != OptimizerSharding::none) return "the optimizer's state is divided";
  if (program.compression.kind == Compression::Kind::powersgd) return "compression keeps what each worker has not sent yet";
  if (program.greatest_lag > 0) return "batches overlap";
  for (const Op& op : program.ops) {
    if (op.stage > 0) return "the plan is a pipeline";
    if (op.mesh.data != program.devices) return "the plan divides layers";
    if (!model.node(op.node).layer->states().empty()) return "layers carry state from step to step";
  }
  return "";
}

/// Running statistics change with the forward, long before it is known whether the step will be one. Of other ranks nobody asks for them.
void Worker::State::begin_whole_step() {
  if (rank != 0) return;
  const MemoryScope scope(MemoryCategory::buffers);
  whole_steps.in_step = true;
  for (const auto& [node, tensors] : buffers) {
    std::vector<at::Tensor>& kept = whole_steps.buffers[node];
    kept.resize(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i)
      if (kept[i].defined()) kept[i].copy_(tensors[i]);
      else kept[i] = tensors[i].clone();
  }
}

/// Before the first update of a step: every worker has all sums, and knows the losses of all. Nothing that comes after waits for another one.
void Worker::State::agree_on_step() {
  replicas->await_sums();
  at::Tensor losses = at::zeros({communicator->size()}, at::kDouble);
  losses[rank] = outcome.loss_sum;
  communicator->all_reduce(losses);
  const double* values = losses.data_ptr<double>();
  whole_steps.steps.losses[batches] = {values, values + losses.numel()};  // batches is the number of this one, from 1
  whole_steps.updates = true;
}

void Worker::State::end_whole_step() {
  whole_steps.in_step = whole_steps.updates = false;
  whole_steps.steps.done = batches;
  std::erase_if(whole_steps.steps.losses, [this](const auto& entry) { return entry.first < batches - 1; });
}

std::optional<WholeSteps> Worker::return_to_whole_step() {
  State& s = *state_;
  check_internal(s.options.keeps_whole_steps && s.rank == 0, "whole steps are kept by rank 0 that was asked to");
  const c10::InferenceMode inference;
  if (s.whole_steps.updates) return std::nullopt;
  if (s.shows_average) s.exchange_averages();
  s.batches = s.whole_steps.steps.done;
  s.whole_steps.steps.losses.erase(s.batches + 1);
  if (std::exchange(s.whole_steps.in_step, false))
    for (auto& [node, tensors] : s.buffers)
      for (size_t i = 0; i < tensors.size(); ++i) tensors[i].copy_(s.whole_steps.buffers.at(node)[i]);
  return s.whole_steps.steps;
}

}  // namespace trireme
