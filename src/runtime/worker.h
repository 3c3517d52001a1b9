// A worker executes programs on tensors: the thread that drives one device.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "comm/local/local_world.h"
#include "program/program.h"
#include "runtime/replicas/parameter_store.h"
#include "runtime/step.h"
#include "runtime/whole_step.h"
#include "trireme/model.h"

namespace trireme {

class ReplicaView;
struct HeldParts;

/// Belongs to one thread, which must be inside a DeviceScope of `rank`. Workers of one world share `store`. Weights and
/// buffers begin with the model's initial values where it has any, else with drawn ones.
class Worker {
 public:
  /// `training` and `evaluation` are compiled from the same model and plan; either may be null if it is never run. All
  /// workers of the world must be constructed concurrently: sub-groups are formed here.
  Worker(int rank, const Model& model, const Program* training, const Program* evaluation, ParameterStore& store,
         LocalWorld& world, const WorkerOptions& options);
  ~Worker();
  /// The same for workers that share no memory: `world` spans all ranks; the programs have private replicas.
  Worker(int rank, const Model& model, const Program* training, const Program* evaluation, Precision precision,
         std::unique_ptr<Communicator> world, const WorkerOptions& options);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// One optimizer step. Returns when this worker is through; others may be behind.
  StepOutcome train(const StepInput& input);
  /// Schedules without flush leave batches in the pipeline: works them off, so that every batch is in the weights. All
  /// workers together, before evaluate, settle and the end; does nothing under schedules that flush.
  StepOutcome drain();
  /// Forward only, with running statistics. Where the optimizer averages weights (OptimizerConfig::ema) with the
  /// averages, and with averages of the running statistics in the same shares; all workers together then.
  StepOutcome evaluate(const StepInput& input);
  /// Waits until every holder has written the weights of the last step: after it, and a barrier, the store may be read
  /// whole. All workers together. `averaged`: where the optimizer averages weights the averages lie in the weights'
  /// place, and those of running statistics in theirs, as for an evaluation; else the raw ones.
  void settle(bool averaged = false);
  void barrier();
  Replicas& replicas();
  /// The communicator over all workers, for use between two steps by all of them together.
  Communicator& world();

  /// Steps of the optimizer so far, with those of the workers that this one goes on for.
  int64_t updates() const;
  /// What it has besides its replicas of what a run carries from step to step: running statistics where it is the data
  /// axis' first worker, their averages, the state of layers. Tensors are its own memory. Between two steps, after
  /// drain() and settle().
  HeldParts held() const;

  /// Of rank 0 with WorkerOptions::keeps_whole_steps, once a step or an evaluation has failed: running statistics
  /// become those before the step that is in no worker's weights, so that updates() and held() are as between two
  /// steps. Communicates to no other worker. nullopt: this worker's own update failed.
  std::optional<WholeSteps> return_to_whole_step();

  /// What this worker holds, to `view`, which is of the training program. Between two steps.
  void show(ReplicaView& view) const;

  /// Running statistics and the like of op `op` of the training program on this worker; null where it is not on this
  /// worker.
  const std::vector<at::Tensor>* buffers(OpId op) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
