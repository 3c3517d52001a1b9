// The tensors of a TrainingState other than weights and buffers, by their names in files.
#pragma once

#include <string>

#include "runtime/migrate/training_state.h"

namespace trireme {

/// Returns the tensors by name: "optimizer/<k>/<parameter>", "average/<buffer>", "error/<parameter>",
/// "factor/<parameter>/<region>", "carried/<layer>/<state>". They share memory with the state.
TensorMap state_tensors(const TrainingState& state);

/// Stores a tensor in the state by its name. Returns false if the name has none of these forms.
bool put_state_tensor(const std::string& name, at::Tensor tensor, TrainingState& state);

}  // namespace trireme
