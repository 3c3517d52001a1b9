// Checkpoints of replicas that agree: which plans support them, when they are due, and from which state a run resumes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "checkpoint/resume.h"
#include "experiment/replica_batches.h"
#include "experiment/run_spec.h"
#include "metrics/early_stopping.h"
#include "metrics/result.h"
#include "train/agreement/agreement_state.h"
#include "train/agreement/replica_stops.h"
#include "trireme/plan.h"

namespace trireme {

/// The progress of an earlier run of the replicas.
struct AgreementBeginning {
  int64_t step = 0;                            ///< of the checkpoint; 0: the run begins anew
  double seconds = 0;                          ///< duration of the earlier run
  std::vector<ReplicaProgress> replicas = {};  ///< empty: each has made `step` steps
  StoppingState stopping = {};                 ///< what the evaluations of the earlier run have shown
  std::optional<EvaluationPoint> best = {};    ///< the best of them, if the state has its weights
  std::optional<TargetReached> reached = {};
};

/// Returns the progress by replica.
std::vector<ReplicaProgress> progress_of(const AgreementBeginning& beginning, const ReplicaBatches& batches,
                                         int replicas);
int64_t samples_of(const std::vector<ReplicaProgress>& replicas);

/// Returns the steps of all replicas within `length`, divided by the number of replicas. Checkpoints and curves count
/// steps in this way.
int64_t steps_of_run(const Length& length, const ReplicaBatches& batches, int replicas);

/// Returns the samples of all replicas within `length`. `batch`: of all replicas together.
int64_t samples_of(const Length& length, const ReplicaBatches& batches, int64_t batch);

/// What executes the replicas: threads of this process, ranks of a run of processes, or clients of a server.
enum class ReplicaHosting { threads, processes, clients };

/// Returns the options for stopping replicas that have made the steps `begun`. `writes`: the run writes checkpoints.
ReplicaStopOptions stops_of(const RunSpec& experiment, const UpdatePolicy& update, const ReplicaBatches& batches,
                            const std::vector<ReplicaProgress>& begun, bool writes, ReplicaHosting hosting);

/// Errors (user): checkpoints that a run of this plan cannot write or resume. `resumes`: the run resumes one. `serves`:
/// the replicas are in other processes, and a server writes its own state.
void check_agreement_checkpoints(const RunSpec& experiment, const TaskData& data, const Plan& plan, bool resumes,
                                 bool serves = false);

/// Opens the checkpoint to resume under the plan. Errors (user): those of open_resumption and ReplicaBatches; the
/// checkpoint belongs to another agreement, policy or options of it.
Resumption open_resumption(const std::filesystem::path& path, const Plan& plan, const RunSpec& experiment,
                           const Model& model, const TaskData& data);

}  // namespace trireme
