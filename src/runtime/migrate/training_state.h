// The training state between two steps, independent of the plan, and how replicas take it over.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "program/program.h"
#include "runtime/replicas/replicas.h"
#include "trireme/model.h"

namespace trireme {

/// The state of a run between two steps. Nothing in it depends on a plan. Tensors have the model's shapes and are not
/// charged to any device.
struct TrainingState {
  int64_t updates = 0;  ///< optimizer steps so far
  TensorMap weights;    ///< master values of all parameters, including frozen ones
  /// By parameter: its state tensors; averaged weights are the last; empty before the first update and for frozen
  /// parameters.
  std::map<std::string, std::vector<at::Tensor>> optimizer;
  TensorMap buffers;           ///< running statistics of the data axis' first worker: those that an evaluation uses
  TensorMap averaged_buffers;  ///< their averages, where the optimizer averages weights
  /// What PowerSGD has not sent yet, by parameter: the sum of the workers' errors, in the parameter's shape; 0 where
  /// gradients are sent whole. Only for parameters with a shard that is sent as factors.
  TensorMap errors;
  /// PowerSGD's Q, by factor_name of the shard. It belongs to one division of the parameter and to one rank.
  TensorMap factors;
  TensorMap carried;  ///< state of stateful layers, by "<layer>/<state>": one row per sample of the global batch

  /// Only for a run whose replicas agree; the other members then hold the first replica's state. Tensors by
  /// "replica/1/weights/NAME" (as in the maps above), "policy/shared/NAME", "policy/0/NAME"; texts by "shared", "0",
  /// "1" (trireme/policy.h).
  TensorMap agreement;
  std::map<std::string, std::string> agreement_texts;

  /// Weights and running statistics of the best evaluation so far, of a run without an agreement that restores them at
  /// its end. Never written to, so that several states may share the tensors. Empty: there are none.
  TensorMap best;

  int64_t bytes() const;
};

/// A region of a full tensor that one worker holds.
struct HeldPart {
  std::string name;
  Shape shape;  ///< of the full tensor
  Box box;
  at::Tensor values;  ///< the worker's own memory
};

/// What a worker holds besides its replicas of the weights.
struct HeldParts {
  std::vector<HeldPart> buffers, averaged_buffers, carried;
};

/// Overwrites what the replicas of `rank` hold with the weights and optimizer state of `state`. Replicas::resume must
/// have been called. If replicas are shared, one worker writes each shard of the weights. Call it between barriers.
/// Contributors share out PowerSGD's errors equally. A factor of another division or rank stays as it was drawn.
void give_state(const Program& program, int rank, const TrainingState& state, Replicas& replicas);

/// "<parameter>/<region>", the region for example "0-16,0-8".
std::string factor_name(const std::string& parameter, const Box& box);
/// Returns the parameter in a factor's name; "" if there is none.
std::string parameter_of_factor(const std::string& name);

/// What give_state takes over of PowerSGD's state only in part. Names of parameters, in the program's order.
struct FactorsLeft {
  std::vector<std::string> errors;   ///< an error is dropped, because the program sends the gradient whole
  std::vector<std::string> factors;  ///< factors are drawn anew although the error goes on
};
FactorsLeft factors_left(const Program& program, const TrainingState& state);

}  // namespace trireme
