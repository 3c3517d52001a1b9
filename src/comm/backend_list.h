// The list of backends. A folder with a descriptor, and a line in backend_list.cpp, add a built-in one.
#pragma once

#include <string>
#include <vector>

#include "trireme/backend.h"

namespace trireme {

/// Built-in ones, then registered ones.
const std::vector<const BackendKind*>& backend_kinds();
/// Of a run of processes that names none: the first that it can have.
const BackendKind& usual_process_backend();
/// That can_be_chosen.
std::vector<std::string> backend_choices();

// One folder each.
extern const BackendKind kLocalBackend, kGlooBackend, kMpiBackend, kNcclBackend, kVirtualBackend;

}  // namespace trireme
