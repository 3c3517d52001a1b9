// The data of the verbs that predict: they need its shape only.
#pragma once

#include "data/data_spec.h"
#include "trireme/dataset.h"

namespace trireme {

/// As open_data_or_shape (data/open.h). Prints what is assumed of data that are not here, in one line on standard
/// error.
TaskData data_to_predict(const DataSpec& spec);

}  // namespace trireme
