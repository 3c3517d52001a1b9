// Shares the initial state among the ranks of a run whose workers are processes. Rank 0 has read it.
#pragma once

#include "train/run.h"

namespace trireme {

/// All ranks must call it together, before any of them creates its Run. Afterwards `options` has rank 0's resumed state
/// on every rank, charged to no device, and says on every rank whether checkpoints are written. `process` must be set.
void share_beginning(RunOptions& options);

}  // namespace trireme
