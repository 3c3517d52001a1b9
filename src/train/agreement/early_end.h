// Which plans evaluations can end early.
#pragma once

#include "experiment/run_spec.h"
#include "train/agreement/agreement_checkpoints.h"
#include "trireme/dataset.h"
#include "trireme/plan.h"

namespace trireme {

/// Errors (user): evaluations do not have the measure of [early_stopping]; the replicas of the plan cannot be ended by
/// an evaluation.
void check_early_stopping(const RunSpec& experiment, const TaskData& data, const Plan& plan,
                          ReplicaHosting hosting = ReplicaHosting::threads);

}  // namespace trireme
