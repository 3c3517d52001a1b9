// The reports that a replica in another process sends to its run (Hub::report), as requests.
#pragma once

#include <cstdint>
#include <vector>

#include "base/memory.h"
#include "runtime/agreement.h"
#include "runtime/migrate/migrate.h"
#include "train/agreement/replica_evaluator.h"
#include "train/step_records.h"
#include "trireme/hub.h"

namespace trireme {

enum class ReplicaReportKind { began, steps, snapshot, worker, state, end };

/// What a replica reports of one of its workers when it ends.
struct ReportedWorker {
  int device = 0;
  MemoryUse memory;  ///< the peak only
  InnerWork work;
};

Request report_of_beginning(double seconds);
Request report_of(const TrainedStep& step);
Request report_of(const ReplicaSnapshot& snapshot);
Request report_of(const ReportedWorker& worker);
/// Requests the end of the run: the replica's process has received a signal to end.
Request report_of_end();
/// A replica's part of a checkpoint, for any replica but the first: TrainingState::agreement and its texts.
Request report_of(const TrainingState& part);

/// Expected size of a snapshot.
struct SnapshotShape {
  int64_t elements = 0;   ///< of all weights together
  size_t statistics = 0;  ///< number of batch norm layers
};

// Errors (run): the request is not of this kind, or its values are impossible.
ReplicaReportKind kind_of(const Request& request);
double beginning_from(const Request& request);
std::vector<TrainedStep> steps_from(const Request& request);
TrainingState state_from(Request request);
ReplicaSnapshot snapshot_from(Request request, const SnapshotShape& shape);
std::vector<ReportedWorker> workers_from(const Request& request, int devices);

}  // namespace trireme
