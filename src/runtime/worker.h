// A worker executes programs on tensors. It is the thread that drives one device.
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
/// buffers begin with the model's initial values if it has any, otherwise with drawn values.
class Worker {
 public:
  /// `training` and `evaluation` must be compiled from the same model and plan. One of them may be null if it is never
  /// run. All workers of the world must be constructed concurrently, because sub-groups are formed here.
  Worker(int rank, const Model& model, const Program* training, const Program* evaluation, ParameterStore& store,
         LocalWorld& world, const WorkerOptions& options);
  ~Worker();
  /// The same for workers that share no memory: `world` spans all ranks, and the programs have private replicas.
  Worker(int rank, const Model& model, const Program* training, const Program* evaluation, Precision precision,
         std::unique_ptr<Communicator> world, const WorkerOptions& options);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Makes one optimizer step. Returns when this worker has finished; others may be behind.
  StepOutcome train(const StepInput& input);
  /// Finishes the batches that a schedule without flush leaves in the pipeline, so that every batch is in the weights.
  /// All workers must call it together, before evaluate, before settle and at the end. Does nothing under schedules
  /// that flush.
  StepOutcome drain();
  /// Forward only, with running statistics. If the optimizer averages weights (OptimizerConfig::ema), it uses the
  /// averages, and running statistics averaged with the same shares; all workers must then call it together.
  StepOutcome evaluate(const StepInput& input);
  /// Blocks until every holder has written the weights of the last step. After it and a barrier, the whole store may be
  /// read. All workers must call it together. `averaged`: if the optimizer averages weights, weights and running
  /// statistics are replaced by their averages, as in an evaluation. Otherwise (and always if `averaged` is false) they
  /// are the raw values.
  void settle(bool averaged = false);
  void barrier();
  Replicas& replicas();
  /// The communicator over all workers. All of them may use it together between two steps.
  Communicator& world();

  /// Returns the number of optimizer steps since the start, or since an update policy last restarted the optimizer.
  /// Steps of the workers that this one replaces are included.
  int64_t updates() const;
  /// Returns the training state that this worker holds besides its replicas: running statistics if it is the data axis'
  /// first worker, their averages, and the state of layers. The tensors are its own memory. Call it between two steps,
  /// after drain() and settle().
  HeldParts held() const;

  /// For rank 0 with WorkerOptions::keeps_whole_steps, after a step or an evaluation has failed. Undoes the failed
  /// step's changes of the running statistics if that step is in no worker's weights. Then updates() and held() have
  /// the values that they have between two steps. Communicates with no other worker. Returns nullopt if this worker's
  /// own update failed.
  std::optional<WholeSteps> return_to_whole_step();

  /// Registers what this worker holds with `view`, which must belong to the training program. Call it between two
  /// steps.
  void show(ReplicaView& view) const;

  /// Returns the buffers (running statistics and the like) of op `op` of the training program, or null if the op is not
  /// on this worker.
  const std::vector<at::Tensor>* buffers(OpId op) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
