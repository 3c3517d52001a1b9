// Work that can be ended at any moment.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "planner/deadline.h"

namespace trireme {

/// Runs `task` in a child process and returns what it returned. nullopt: `deadline` passed first, or the child died; it
/// is gone then. For code that looks at no clock and writes to the terminal: its output is dropped. `task` must not use
/// threads of this process.
std::optional<std::string> run_in_child(const std::function<std::string()>& task, const Deadline& deadline);

}  // namespace trireme
