// The plan of a run whose workers are processes. Rank 0 chooses it. If trial steps decide, all ranks take part in them.
#pragma once

#include <memory>
#include <string>

#include "cli/options.h"
#include "cli/train_folder.h"
#include "train/process_rank.h"
#include "trireme/backend.h"
#include "trireme/plan.h"

namespace trireme {

/// Returns rank 0's plan, after the processes' GPUs were connected for it. All ranks must call it together, with the
/// same input. Adds to `through` how tensors travel. Errors: of rank 0 those of choosing a plan (user); on any rank,
/// why a trial failed (run).
Plan plan_of_processes(const TrainOptions& options, const BackendKind& backend,
                       const std::shared_ptr<ProcessRank>& process, const TrainSubject& subject, std::string& through);

/// One rank of `trireme train --measure`: measures what the comparison requests (TrainOptions::measure). Rank 0 writes
/// the result as a message. All ranks must call it together.
void measure_for_comparison(const TrainOptions& options, const BackendKind& backend,
                            const std::shared_ptr<ProcessRank>& process, const TrainSubject& subject);

}  // namespace trireme
