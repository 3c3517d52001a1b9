// The worker threads of a run.
#pragma once

#include <functional>
#include <vector>

#include "comm/local/local_world.h"

namespace trireme {

/// Runs body(rank) on one thread per rank of `world`, each inside its DeviceScope, and waits for all. The first
/// exception aborts the world, so the others end too, and is rethrown here; not a StoppedError where there is another.
/// `intra_op_threads`: by rank, of the worker's operators; empty: one each. `first_device`: of rank 0; that of rank r
/// is r further.
void run_worker_threads(LocalWorld& world, const std::function<void(int rank)>& body,
                        const std::vector<int>& intra_op_threads = {}, int first_device = 0);

}  // namespace trireme
