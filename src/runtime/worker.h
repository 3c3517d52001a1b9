// A worker executes programs on tensors: the thread that drives one device.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/local/local_world.h"
#include "model/weights/tensor_map.h"
#include "program/program.h"
#include "runtime/optimizer.h"
#include "runtime/replicas/parameter_store.h"
#include "runtime/timeline.h"

namespace trireme {

/// The samples of one global batch, by index within it. `load` may be called by all workers at once; the result belongs to the
/// caller. inputs[i] is model input i: [range.size(), ...sample shape].
struct Batch {
  int64_t samples = 0;
  std::function<std::vector<at::Tensor>(Range range)> load;
  /// For samples of other shapes than the worker's model has: that model for these shapes (see program/shapes.h). The same for all
  /// workers; batches of different shapes may be in one pipeline. Null: the worker's model.
  std::shared_ptr<const Model> model = {};
};

struct StepInput {
  int64_t step = 0;  ///< 0-based; keys dropout
  int64_t own_step = 0;      ///< 0-based, of the replica, where the program agrees
  bool ends_epoch = false;   ///< likewise: the replica has been through its samples with it
  Batch batch;
  double learning_rate = 0;
  double clip_norm = 0;      ///< 0: no clipping; needs a program that keeps gradients
  bool trace = false;        ///< record a timeline
  bool starts_stream = false;  ///< stateful layers begin with zero state: the first step of an epoch
  double slowness = 1;       ///< emulated: layers and updates take so many times as long, of which the worker sleeps the rest; in virtual time it passes
};

/// Squared norms of a training step's gradients, for the gradient noise scale (cost/noise_scale.h). A piece is the part of the batch that
/// this worker sums by itself (runtime/gradient_pieces.cpp). Gradients are means over their samples; sums over all workers are the step's.
struct GradientNorms {
  double squares = 0;          ///< |G|^2 of the whole batch: this worker's part of the parameters
  double piece_squares = 0;    ///< sum of |G|^2 over the pieces
  double pieces = 0;
  double inverse_samples = 0;  ///< sum of 1/samples over the pieces
};

/// What one worker's execution of a program gave. Seconds by kind add up to the execution's wall time but for loop overhead.
struct StepOutcome {
  double loss_sum = 0;                    ///< over the samples whose loss this worker counts
  bool stopped = false;                   ///< of a program that agrees: the policy wants no more steps, this one was not made
  bool held = false;                      ///< likewise: as UpdatePolicy::hold asks; this step was not made, and can be asked for again
  std::map<std::string, double> metrics;  ///< sums, like loss_sum
  double begin = 0, end = 0;              ///< seconds on the worker's clock: Communicator::now()
  double compute_seconds = 0;             ///< load, forward, backward, update
  double exposed_seconds = 0;             ///< moving tensors while computing nothing
  double waiting_seconds = 0;             ///< blocked until another worker was ready: bubbles and imbalance
  /// Moving gradients while this worker did something else. Of shared replicas an estimate, by bytes: reading others' gradients
  /// within the one-pass update, which the update's own reading and arithmetic overlap (part of compute_seconds).
  double hidden_seconds = 0;
  int64_t bytes_sent = 0;
  GradientNorms norms;                    ///< with WorkerOptions::gradient_norms
  /// Private replicas: the first parameter, in the order of reduction, of which this worker's own gradient has an infinity or a NaN, and when
  /// that was seen on its clock. Empty: none.
  std::string not_finite;
  double not_finite_at = 0;
  std::vector<Event> events;              ///< when traced
};

class InstructionTimes;
struct HeldParts;
struct TrainingState;
class ReplicaAgreement;
class ReplicaView;

/// What has been trained, with WorkerOptions::keeps_whole_steps.
struct WholeSteps {
  int64_t done = 0;  ///< steps of this worker, not of those that it goes on for
  std::map<int64_t, std::vector<double>> losses = {};  ///< of the last two at least, by number of the step from 1: StepOutcome::loss_sum by rank
};

struct WorkerOptions {
  uint64_t seed = 0;
  BatchNormScope batch_norm = BatchNormScope::local;
  OptimizerConfig optimizer = {};
  bool gradient_norms = false;  ///< of pieces and of the whole; only for programs without an obstacle_to_gradient_norms
  /// Before each update all workers tell each other their losses, when they have all sums: a step is in the weights of all who can go on, or of
  /// nobody. Costs a small all-reduce per step, and updates that begin with the last sum. Only for programs without an obstacle_to_whole_steps.
  bool keeps_whole_steps = false;
  InstructionTimes* times = nullptr;       ///< in virtual time: what computing takes; outlives the worker
  ReplicaAgreement* agreement = nullptr;   ///< of a program that agrees; outlives the worker
  const TrainingState* resumed = nullptr;  ///< goes on from there (runtime/migrate/migrate.h) instead of initial values; read by the constructor
};

/// Belongs to one thread, which must be inside a DeviceScope of `rank`. Workers of one world share `store`. Weights and buffers begin
/// with the model's initial values where it has any, else with drawn ones.
class Worker {
 public:
  /// `training` and `evaluation` are compiled from the same model and plan; either may be null if it is never run. All workers
  /// of the world must be constructed concurrently: sub-groups are formed here.
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
  /// Schedules without flush leave batches in the pipeline: works them off, so that every batch is in the weights. All workers
  /// together, before evaluate, settle and the end; does nothing under schedules that flush.
  StepOutcome drain();
  /// Forward only, with running statistics. Where the optimizer averages weights (OptimizerConfig::ema) with the averages, and with
  /// averages of the running statistics in the same shares; all workers together then.
  StepOutcome evaluate(const StepInput& input);
  /// Waits until every holder has written the weights of the last step: after it, and a barrier, the store may be read whole. All
  /// workers together. `averaged`: where the optimizer averages weights the averages lie in the weights' place, and those of running
  /// statistics in theirs, as for an evaluation; else the raw ones.
  void settle(bool averaged = false);
  void barrier();
  Replicas& replicas();
  /// The communicator over all workers, for use between two steps by all of them together.
  Communicator& world();

  /// Steps of the optimizer so far, with those of the workers that this one goes on for.
  int64_t updates() const;
  /// What it has besides its replicas of what a run carries from step to step: running statistics where it is the data axis' first
  /// worker, their averages, the state of layers. Tensors are its own memory. Between two steps, after drain() and settle().
  HeldParts held() const;

  /// Of rank 0 with WorkerOptions::keeps_whole_steps, once a step or an evaluation has failed: takes back what a step that is in nobody's
  /// weights has changed here, running statistics, so that updates() and held() are as between two steps. Talks to nobody. nullopt: this
  /// worker's own update failed.
  std::optional<WholeSteps> return_to_whole_step();

  /// What this worker holds, to `view`, which is of the training program. Between two steps.
  void show(ReplicaView& view) const;

  /// Running statistics and the like of op `op` of the training program on this worker; null where it is not on this worker.
  const std::vector<at::Tensor>* buffers(OpId op) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
