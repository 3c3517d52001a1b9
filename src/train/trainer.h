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
/// for failures during the run: the result's status and reason report them, with everything measured until then.
/// Invalid plans throw user errors before anything starts.
///
/// If `interrupted` becomes true, the run ends its step if that takes at most half a second, and otherwise ends within
/// a second or two, whatever it is doing. The observer gets the trained weights if the run ended between two steps.
///
/// `adapter`: may switch the run to other plans, which must be valid for the model and the batch; null: the plan does
/// not change. `checkpoints`: the folder for the experiment's [checkpoint], and a checkpoint to resume; an interrupt
/// then leaves the run 10 s to end its step. `process`: this process is rank 0 of a run whose workers are processes;
/// the other ranks call run_follower_rank() (train/follower_rank.h). The experiment must then have private replicas,
/// and `adapter` must be null. Only rank 0 resumes and writes. `make_world`: for a plan with an agreement whose
/// replicas train in other processes.
RunResult train(const RunSpec& experiment, const Model& model, const TaskData& data, const Plan& plan,
                TrainObserver& observer, const std::atomic<bool>& interrupted, Adapter* adapter = nullptr,
                CheckpointUse checkpoints = {}, const std::shared_ptr<ProcessRank>& process = nullptr,
                const MakeReplicaWorld& make_world = {});

}  // namespace trireme
