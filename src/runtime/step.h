// What a worker is given and what it gives back: for all its steps, and for one.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/optimizer.h"
#include "runtime/timeline.h"
#include "trireme/model.h"

namespace trireme {

class InstructionTimes;
class ReplicaAgreement;
struct TrainingState;

/// The samples of one global batch, by index within it. `load` may be called by all workers at once; the result belongs
/// to the caller. inputs[i] is model input i: [range.size(), ...sample shape].
struct Batch {
  int64_t samples = 0;
  std::function<std::vector<at::Tensor>(Range range)> load;
  /// For samples of other shapes than the worker's model has: that model for these shapes (see program/shapes.h). The
  /// same for all workers; batches of different shapes may be in one pipeline. Null: the worker's model.
  std::shared_ptr<const Model> model = {};
};

struct StepInput {
  int64_t step = 0;         ///< 0-based; keys dropout
  int64_t own_step = 0;     ///< 0-based, of the replica, where the program agrees
  bool ends_epoch = false;  ///< likewise: the replica has been through its samples with it
  Batch batch;
  double learning_rate = 0;
  double clip_norm = 0;        ///< 0: no clipping; needs a program that keeps gradients
  bool trace = false;          ///< record a timeline
  bool starts_stream = false;  ///< stateful layers begin with zero state: the first step of an epoch
  double slowness = 1;  ///< emulated: layers and updates take so many times as long, of which the worker sleeps the
                        ///< rest; in virtual time it passes
};

/// Squared norms of a training step's gradients, for the gradient noise scale (cost/noise_scale.h). A piece is the part
/// of the batch that this worker sums by itself (runtime/worker/gradient_pieces.h). Gradients are means over their
/// samples; sums over all workers are the step's.
struct GradientNorms {
  double squares = 0;        ///< |G|^2 of the whole batch: this worker's part of the parameters
  double piece_squares = 0;  ///< sum of |G|^2 over the pieces
  double pieces = 0;
  double inverse_samples = 0;  ///< sum of 1/samples over the pieces
};

/// What one worker's execution of a program gave. Seconds by kind add up to the execution's wall time but for loop
/// overhead.
struct StepOutcome {
  double loss_sum = 0;   ///< over the samples whose loss this worker counts
  bool stopped = false;  ///< of a program that agrees: the policy wants no more steps, this one was not made
  bool held = false;     ///< likewise: as UpdatePolicy::hold asks; this step was not made, and can be asked for again
  bool was_made() const { return !stopped && !held; }
  std::map<std::string, double> metrics;  ///< sums, like loss_sum
  double begin = 0, end = 0;              ///< seconds on the worker's clock: Communicator::now()
  double compute_seconds = 0;             ///< load, forward, backward, update
  double exposed_seconds = 0;             ///< moving tensors while computing nothing
  double waiting_seconds = 0;             ///< blocked until another worker was ready: bubbles and imbalance
  /// Moving gradients while this worker did something else. Of shared replicas an estimate, by bytes: reading others'
  /// gradients within the one-pass update, which the update's own reading and arithmetic overlap (part of
  /// compute_seconds).
  double hidden_seconds = 0;
  int64_t bytes_sent = 0;
  GradientNorms norms;  ///< with WorkerOptions::gradient_norms
  /// Private replicas: the first parameter, in the order of reduction, of which this worker's own gradient has an
  /// infinity or a NaN, and when that was seen on its clock. Empty: none.
  std::string not_finite;
  double not_finite_at = 0;
  std::vector<Event> events;  ///< when traced
};

struct WorkerOptions {
  uint64_t seed = 0;
  BatchNormScope batch_norm = BatchNormScope::local;
  OptimizerConfig optimizer = {};
  bool gradient_norms = false;  ///< of pieces and of the whole; only for programs without an obstacle_to_gradient_norms
  /// Before each update all workers tell each other their losses, when they have all sums: a step is in the weights of
  /// all who can go on, or in those of none. Costs a small all-reduce per step, and updates that begin with the last
  /// sum. Only for programs without an obstacle_to_whole_steps.
  bool keeps_whole_steps = false;
  InstructionTimes* times = nullptr;       ///< in virtual time: what computing takes; outlives the worker
  ReplicaAgreement* agreement = nullptr;   ///< of a program that agrees; outlives the worker
  const TrainingState* resumed = nullptr;  ///< goes on from there (runtime/migrate/training_state.h) instead of initial
                                           ///< values; read by the constructor
};

}  // namespace trireme
