// What the ranks of a run whose workers are processes begin with: rank 0 has read it.
#pragma once

#include "train/run.h"

namespace trireme {

/// All ranks together, before any of them makes its run: `options` has rank 0's resumed state on every rank, charged to
/// no device, and says on every rank whether checkpoints are written. `process` must be set.
void share_beginning(RunOptions& options);

}  // namespace trireme
