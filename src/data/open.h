// Finds and opens a data set by name.
#pragma once

#include "data/data_spec.h"
#include "trireme/dataset.h"

namespace trireme {

/// Opens the set. One that is nowhere found is replaced by its stand-in, where it has one, and TaskData::source says
/// so; else it is a user error that lists the folders searched and the command that downloads it. A set of which only
/// some files are found is a user error too, as is a --data-dir that does not exist.
TaskData open_data(const DataSpec& spec);

}  // namespace trireme
