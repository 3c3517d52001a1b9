// The [data] table of an experiment. Its keys are listed in docs/experiments.md.
#pragma once

#include <filesystem>

#include "data/open.h"
#include "trireme/config.h"

namespace trireme {

/// Reads all keys except `workers`, as far as the named set accepts them; finish() reports the others. Relative paths
/// count from `folder`. Errors (user): an unknown set or choice; values of the wrong type or out of range.
DataSpec read_data(const ConfigTable& table, const std::filesystem::path& folder);

}  // namespace trireme
