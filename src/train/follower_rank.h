// The ranks other than 0 of a run whose workers are processes.
#pragma once

#include <atomic>
#include <memory>

#include "experiment/run_spec.h"
#include "train/process_rank.h"
#include "trireme/plan.h"

namespace trireme {

/// Runs as `process`, a rank other than 0, until rank 0 ends the run. Rank 0 calls train() with the same arguments.
/// Errors (run): the failure of this rank, or why another rank ended the run. If `interrupted` becomes true and rank 0,
/// which may have been interrupted too, has not ended the run a moment later, this rank ends the whole run. The run's
/// threads may then outlive this call, in the middle of a layer.
void run_follower_rank(const RunSpec& experiment, const Model& model, const TaskData& data, const Plan& plan,
                       const std::shared_ptr<ProcessRank>& process, const std::atomic<bool>& interrupted);

}  // namespace trireme
