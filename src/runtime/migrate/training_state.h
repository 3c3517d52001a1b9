// What a run carries from step to step, whatever its plan, and how replicas take it over.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "program/program.h"
#include "runtime/replicas/replicas.h"
#include "trireme/tensor_map.h"

namespace trireme {

/// A run between two steps; nothing in it depends on a plan. Tensors have the model's shapes and are charged to no
/// device.
struct TrainingState {
  int64_t updates = 0;  ///< steps of the optimizer
  TensorMap weights;    ///< master values of all parameters, also of frozen ones
  std::map<std::string, std::vector<at::Tensor>>
      optimizer;      ///< by parameter: its state tensors, averaged weights the last of them; none
                      ///< before the first update and of frozen parameters
  TensorMap buffers;  ///< running statistics, of the data axis' first worker: those that an evaluation would use
  TensorMap averaged_buffers;  ///< their averages, where the optimizer averages weights
  TensorMap carried;           ///< what stateful layers carry, by "<layer>/<state>": a row for each of the global batch

  /// Of a run whose replicas agree; the rest of the state is then the first replica's. Tensors by
  /// "replica/1/weights/NAME" (as the maps above), "policy/shared/NAME", "policy/0/NAME"; texts by "shared", "0", "1"
  /// (trireme/policy_state.h).
  TensorMap agreement;
  std::map<std::string, std::string> agreement_texts;

  int64_t bytes() const;
};

/// A region of a full tensor that one worker holds.
struct HeldPart {
  std::string name;
  Shape shape;  ///< of the full tensor
  Box box;
  at::Tensor values;  ///< the worker's own memory
};

/// What a worker holds besides its replicas.
struct HeldParts {
  std::vector<HeldPart> buffers, averaged_buffers, carried;
};

/// Writes the state's weights and optimizer state in place of what the replicas of `rank` hold; they have resumed. Of
/// shared replicas each shard of the weights is written by one worker. Between barriers.
void give_state(const Program& program, int rank, const TrainingState& state, Replicas& replicas);

/// Errors (run): PowerSGD, whose rests belong to workers and not to parameters.
void check_migrates(const Program& program);

}  // namespace trireme
