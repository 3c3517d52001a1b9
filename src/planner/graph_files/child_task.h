// Work that can be stopped at any time.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "planner/deadline.h"

namespace trireme {

/// Runs `task` in a child process and returns its result. Returns nullopt if `deadline` passes first or the child dies;
/// in both cases the child has ended. For code that does not check the time and writes to the terminal: its output is
/// dropped. `task` must not use threads of this process.
std::optional<std::string> run_in_child(const std::function<std::string()>& task, const Deadline& deadline);

}  // namespace trireme
