// The tensors of a TrainingState besides weights and buffers, by the names that they have in files.
#pragma once

#include <string>

#include "runtime/migrate/training_state.h"

namespace trireme {

/// "optimizer/<k>/<parameter>", "average/<buffer>", "carried/<layer>/<state>". Tensors are shared with the state.
TensorMap state_tensors(const TrainingState& state);

/// Puts a tensor where its name says. False: the name is none of those.
bool put_state_tensor(const std::string& name, at::Tensor tensor, TrainingState& state);

}  // namespace trireme
