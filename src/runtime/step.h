// The inputs and results of a worker: the options for all its steps, and the arguments and outcome of one step.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/devices/core_speed.h"
#include "runtime/optimizer.h"
#include "runtime/timeline.h"
#include "trireme/model.h"

namespace trireme {

class InstructionTimes;
class ReplicaAgreement;
struct TrainingState;

/// The samples of one global batch, by index within it. All workers may call `load` at once; the result belongs to the
/// caller. inputs[i] is model input i: [range.size(), ...sample shape].
struct Batch {
  int64_t samples = 0;
  std::function<std::vector<at::Tensor>(Range range)> load;
  /// Set if the samples have other shapes than the worker's model: the model for these shapes (see program/shapes.h).
  /// The same for all workers. Batches of different shapes may be in one pipeline. Null: the worker's model.
  std::shared_ptr<const Model> model = {};
};

struct StepInput {
  int64_t step = 0;         ///< 0-based; key of the dropout masks
  int64_t own_step = 0;     ///< 0-based, counted by the replica; used if the program agrees
  bool ends_epoch = false;  ///< used if the program agrees: the replica has seen all its samples after this step
  Batch batch;
  double learning_rate = 0;
  double clip_norm = 0;        ///< 0: no clipping; needs a program that keeps gradients
  bool trace = false;          ///< records a timeline
  bool starts_stream = false;  ///< stateful layers begin with zero state: the first step of an epoch
  /// Emulated slowness: layers and updates take this many times as long; the worker sleeps the difference (in virtual
  /// time the clock advances by it).
  double slowness = 1;
};

/// Squared norms of a training step's gradients, for the gradient noise scale (cost/noise_scale.h). A piece is the part
/// of the batch whose gradient this worker sums alone (runtime/worker/gradient_pieces.h). Gradients are means over
/// their samples. The step's values are the sums over all workers.
struct GradientNorms {
  double squares = 0;        ///< |G|^2 of the whole batch, over this worker's part of the parameters
  double piece_squares = 0;  ///< sum of |G|^2 over the pieces
  double pieces = 0;
  double inverse_samples = 0;  ///< sum of 1/samples over the pieces
};

/// The result of one worker's execution of a program. The seconds by kind add up to the wall time of the execution,
/// except for loop overhead.
struct StepOutcome {
  double loss_sum = 0;   ///< over the samples whose loss this worker adds up
  bool stopped = false;  ///< for a program that agrees: the policy wants no more steps; this one was not made
  /// For a program that agrees: true if UpdatePolicy::hold was called. The step was not made and can be requested
  /// again.
  bool held = false;
  bool was_made() const { return !stopped && !held; }
  std::map<std::string, double> metrics;  ///< sums, like loss_sum
  double begin = 0, end = 0;              ///< seconds on the worker's clock: Communicator::now()
  double compute_seconds = 0;             ///< load, forward, backward, update
  double exposed_seconds = 0;             ///< moving tensors while computing nothing; without agree_seconds
  double agree_seconds = 0;               ///< in the instruction `agree`, of which the hub counts the exchanges
  double waiting_seconds = 0;             ///< blocked until another worker was ready: pipeline bubbles and imbalance
  /// Moving gradients while this worker did something else. With shared replicas an estimate by bytes: the one-pass
  /// update reads other workers' gradients while it does its own reading and arithmetic (part of compute_seconds).
  double hidden_seconds = 0;
  int64_t bytes_sent = 0;
  CoreTimes core_times;  ///< of the worker's core, in real time; empty on a GPU
  GradientNorms norms;   ///< set with WorkerOptions::gradient_norms
  /// |G|^2 of the batch of `updated_step`, before clipping, over this worker's part of the parameters; the sum over all
  /// workers is that of the full gradient. nullopt: the program keeps no gradients (Program::keeps_gradients), or no
  /// update was made.
  std::optional<double> gradient_squares = {};
  /// StepInput::step of the batch with which the weights were updated. It is an earlier batch if batches overlap.
  int64_t updated_step = 0;
  /// Private replicas: the first parameter, in the order of reduction, for which this worker's own gradient contains an
  /// infinity or a NaN; `not_finite_at` is the time on the worker's clock when it was detected. Empty: none.
  std::string not_finite;
  double not_finite_at = 0;
  std::vector<Event> events;  ///< if traced
};

struct WorkerOptions {
  uint64_t seed = 0;
  BatchNormScope batch_norm = BatchNormScope::local;
  OptimizerConfig optimizer = {};
  /// Measure norms of pieces and of the whole; only for programs without an obstacle_to_gradient_norms.
  bool gradient_norms = false;
  /// Before the first update of a step, all workers wait for all gradient sums and exchange their losses. So after a
  /// failure the step is in the weights of all surviving workers, or of none. Costs a small all-reduce per step, and
  /// updates begin only after the last sum. Only for programs without an obstacle_to_whole_steps.
  bool keeps_whole_steps = false;
  bool records_steps = false;             ///< where possible, replays steps on a GPU (runtime/graph/step_graph.h)
  InstructionTimes* times = nullptr;      ///< in modelled time: the durations of computations; must outlive the worker
  ReplicaAgreement* agreement = nullptr;  ///< of a program that agrees; must outlive the worker
  /// Continue from this state (runtime/migrate/training_state.h) instead of initial values; read by the constructor
  /// only.
  const TrainingState* resumed = nullptr;
};

}  // namespace trireme
