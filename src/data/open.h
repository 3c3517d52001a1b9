// Finds and opens a data set by name.
#pragma once

#include "data/data_spec.h"
#include "trireme/dataset.h"

namespace trireme {

/// Opens the set. If it is not found, its stand-in is opened, if it has one, and TaskData::source says so. Otherwise it
/// is a user error that lists the folders searched and the command that downloads the set. Also user errors: only some
/// files of the set are found; the --data-dir does not exist.
TaskData open_data(const DataSpec& spec);

}  // namespace trireme
