// Trains under an update policy and makes the row of the comparison (trainer.h does so for plans).
#pragma once

#include <atomic>
#include <string>

#include "experiment/experiment.h"
#include "metrics/result.h"
#include "train/observer.h"
#include "train/replica_run.h"

namespace trireme {

/// `strategy`: "local-sgd,every=16 steps" (experiment/replica_spec.h); `workers`: of all replicas together. As train(): what goes wrong during
/// the run is in the row, bad settings throw user errors before anything starts. The observer is told of a step when as many replica steps
/// have ended as there are replicas; of evaluations when training is over, as they are made then.
/// `make_world`: of the server of replicas that are processes; else null.
RunResult train_replicas(const Experiment& experiment, const Model& model, const TaskData& data, const std::string& strategy, int workers,
                         TrainObserver& observer, const std::atomic<bool>& interrupted, const MakeReplicaWorld& make_world = {});

}  // namespace trireme
