// How tensors travel between processes that compute on GPUs.
#pragma once

#include <string>

#include "experiment/run_spec.h"
#include "train/process_rank.h"
#include "trireme/backend.h"
#include "trireme/plan.h"

namespace trireme {

/// If the backend moves tensors from GPU to GPU, connects the ranks' GPUs. All ranks must call it together, before they
/// train under `plan`. Returns the text about it for the run's header; "" on cores. Errors (user): the backend cannot
/// do it here, for example because two processes compute on one GPU.
std::string connect_gpus(ProcessRank& process, const RunSpec& experiment, const Plan& plan, const BackendKind& backend);

}  // namespace trireme
