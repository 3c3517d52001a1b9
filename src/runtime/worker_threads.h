// The worker threads of a run.
#pragma once

#include <functional>
#include <vector>

#include "comm/local/local_world.h"

namespace trireme {

/// Runs body(rank) on one thread per rank of `world`, each inside its DeviceScope, and waits for all of them. The first
/// exception aborts the world, so that the other threads end too, and is rethrown here; a StoppedError is rethrown only
/// if there is no other exception. `intra_op_threads`: by rank, the threads of the worker's operators; empty: one each.
/// `first_device`: the device of rank 0; the device of rank r is first_device + r.
void run_worker_threads(LocalWorld& world, const std::function<void(int rank)>& body,
                        const std::vector<int>& intra_op_threads = {}, int first_device = 0);

}  // namespace trireme
