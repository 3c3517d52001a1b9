// The ranks other than 0 of a run whose workers are processes.
#pragma once

#include <atomic>
#include <memory>

#include "experiment/run_spec.h"
#include "train/process_rank.h"
#include "trireme/plan.h"

namespace trireme {

/// Works as `process`, a rank other than 0, until rank 0, which calls train() with the same arguments, ends the run.
/// Errors (run): what failed here, or why another rank ended the run. When `interrupted` becomes true and rank 0, which
/// may have been asked too, has not ended the run a moment later, all of it ends. The run may then outlive this in the
/// middle of a layer.
void run_follower_rank(const RunSpec& experiment, const Model& model, const TaskData& data, const Plan& plan,
                       const std::shared_ptr<ProcessRank>& process, const std::atomic<bool>& interrupted);

}  // namespace trireme
