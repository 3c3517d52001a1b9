// Checkpoints of replicas that agree: which plans can have them, where they are due, and what a run goes on from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "checkpoint/resume.h"
#include "experiment/replica_batches.h"
#include "experiment/run_spec.h"
#include "train/agreement/agreement_state.h"
#include "train/agreement/replica_stops.h"
#include "trireme/plan.h"

namespace trireme {

/// What an earlier run of the replicas has left.
struct AgreementBeginning {
  int64_t step = 0;                            ///< of the checkpoint; 0: the run begins anew
  double seconds = 0;                          ///< that the earlier run took
  std::vector<ReplicaProgress> replicas = {};  ///< empty: each has made `step` steps
};

/// By replica.
std::vector<ReplicaProgress> progress_of(const AgreementBeginning& beginning, const ReplicaBatches& batches,
                                         int replicas);
int64_t samples_of(const std::vector<ReplicaProgress>& replicas);

/// Steps of all replicas in a length, divided by their number, as steps of checkpoints and curves count.
int64_t steps_of_run(const Length& length, const ReplicaBatches& batches, int replicas);

/// Samples of all replicas in a length; `batch`: of all together.
int64_t samples_of(const Length& length, const ReplicaBatches& batches, int64_t batch);

enum class ReplicaPlaces { threads, processes, clients };

/// Where replicas stop that have made so many steps. `writes`: checkpoints.
ReplicaStopOptions stops_of(const RunSpec& experiment, const UpdatePolicy& update, const ReplicaBatches& batches,
                            const std::vector<ReplicaProgress>& begun, bool writes, ReplicaPlaces places);

/// Errors (user): checkpoints that a run of this plan cannot write or go on from. `resumes`: it goes on from one.
/// `serves`: its replicas are in other processes, and a server writes what it has itself.
void check_agreement_checkpoints(const RunSpec& experiment, const TaskData& data, const Plan& plan, bool resumes,
                                 bool serves = false);

/// The checkpoint to go on from under the plan. Errors (user): those of open_resumption and ReplicaBatches; it is of
/// another agreement.
Resumption open_resumption(const std::filesystem::path& path, const Plan& plan, const RunSpec& experiment,
                           const Model& model, const TaskData& data);

}  // namespace trireme
