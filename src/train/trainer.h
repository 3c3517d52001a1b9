// Trains a model under a plan, evaluates it, and measures.
#pragma once

#include <atomic>
#include <memory>

#include "checkpoint/checkpoint_use.h"
#include "experiment/run_spec.h"
#include "train/adapter.h"
#include "train/agreement/run_agreement.h"
#include "train/observer.h"
#include "trireme/plan.h"

namespace trireme {

class ProcessRank;

/// Trains to the experiment's length (or time limit) with the plan's workers as threads of this process. Never throws
/// for what goes wrong during the run: the result's status and reason say it, with what was measured until then. Bad
/// plans throw user errors before anything starts. When `interrupted` becomes true the run ends its step, if that takes
/// half a second, or else without it within a second or two, whatever it is doing. The observer is given the trained
/// weights where the run ended between two steps. `adapter`: may have the run go on under other plans, valid for the
/// model and the batch; null: nobody does. `checkpoints`: where the experiment's [checkpoint] are written, and one to
/// go on from. An interrupt then leaves the run 10 s to end its step. `process`: this process is rank 0 of a run whose
/// workers are processes, of which the others call run_follower_rank() (train/follower_rank.h); the experiment has
/// private replicas then, and nobody adapts. What is resumed and written is rank 0's alone. `make_world`: of a plan
/// with an agreement whose replicas train in other processes.
RunResult train(const RunSpec& experiment, const Model& model, const TaskData& data, const Plan& plan,
                TrainObserver& observer, const std::atomic<bool>& interrupted, Adapter* adapter = nullptr,
                CheckpointUse checkpoints = {}, const std::shared_ptr<ProcessRank>& process = nullptr,
                const MakeReplicaWorld& make_world = {});

}  // namespace trireme
