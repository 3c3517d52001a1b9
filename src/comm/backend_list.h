// The list of backends. A folder with a descriptor, and a line in backend_list.cpp, add a built-in one.
#pragma once

#include <string>
#include <vector>

#include "trireme/backend.h"

namespace trireme {

/// Returns all backends: the built-in ones, then the registered ones.
const std::vector<const BackendKind*>& backend_kinds();
/// Returns the default backend of a run of processes: the first one that this build has and that connects processes.
const BackendKind& usual_process_backend();
/// Returns the names of the backends with BackendKind::can_be_chosen.
std::vector<std::string> backend_choices();

// One folder each.
extern const BackendKind kLocalBackend, kGlooBackend, kMpiBackend, kNcclBackend, kVirtualBackend;

}  // namespace trireme
