// Splits a replica's state into what the replicas exchange and what stays with each of them (LocalParts).
//
// Local batch norm: Li, Jiang, Zhang, Kamp, Dou, "FedBN: Federated learning on non-IID features via local batch
// normalization", 2021. Local layers in general: Arivazhagan, Aggarwal, Singh, Choudhary, "Federated learning with
// personalization layers" (FedPer), 2019.
#pragma once

#include <map>

#include "trireme/hub.h"

namespace trireme {

/// Returns what is exchanged: a tensor of weights for each run, and running statistics, but no moments. Shares the
/// state's memory.
ReplicaState shared_part(const LocalParts& parts, const ReplicaState& state);
/// Returns what stays: a tensor of weights for each run, and running statistics. Shares the state's memory.
ModelValues local_part(const LocalParts& parts, const ReplicaState& state);

/// Puts both parts together, in the order of the state's elements and statistics. Shares the memory of both.
ModelValues joined(const LocalParts& parts, const ModelValues& shared, const ModelValues& local);

/// Returns the mean of the local parts of some replicas, all of which count equally: of weights element by element, of
/// running statistics those of a mixture (update/statistics.h). `parts` must not be empty.
ModelValues mean_of(const std::map<int, ModelValues>& parts);

}  // namespace trireme
