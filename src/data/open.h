// Finds and opens a data set by name.
#pragma once

#include "data/data_spec.h"
#include "trireme/dataset.h"

namespace trireme {

/// Opens the set. If it is not found, opens its stand-in, and TaskData::source says so. User errors: the set is not
/// found and has no stand-in (the message lists the folders searched and the command that downloads the set); only some
/// files were found; --data-dir does not exist; the set differs from data.shape.
TaskData open_data(const DataSpec& spec);

/// For predictions, which read no sample: opens the set if it is here. Otherwise returns data without samples
/// (has_samples() is false), of the shape that is known of the set or that the experiment states; TaskData::source says
/// what is assumed. User errors: as open_data of a set that is here; a shape that is neither known nor stated.
TaskData open_data_or_shape(const DataSpec& spec);

}  // namespace trireme
