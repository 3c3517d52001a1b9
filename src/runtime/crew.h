// The worker threads of a run.
#pragma once

#include <functional>

#include "comm/local/local_world.h"

namespace trireme {

/// Runs body(rank) on one thread per rank of `world`, each inside its DeviceScope and with one intra-op thread, and waits for all.
/// The first exception aborts the world, so the others end too, and is rethrown here.
void run_crew(LocalWorld& world, const std::function<void(int rank)>& body);

}  // namespace trireme
