// How tensors travel between processes that compute on GPUs.
#pragma once

#include <string>

#include "experiment/run_spec.h"
#include "train/process_rank.h"
#include "trireme/backend.h"
#include "trireme/plan.h"

namespace trireme {

/// Lets tensors travel from GPU to GPU, if that is what the backend does. All ranks must call it together, before they
/// train under `plan`. Returns what the run's header says about it; "" on cores. Errors (user): the backend cannot do
/// it here, for example because two processes compute on one GPU.
std::string connect_gpus(ProcessRank& process, const RunSpec& experiment, const Plan& plan, const BackendKind& backend);

}  // namespace trireme
