// Digits drawn by trireme, which also stand in for MNIST where that is not found.
#pragma once

#include <string>

#include "data/data_spec.h"
#include "trireme/dataset.h"

namespace trireme::sets {

/// `reason`: follows "generated digits" in the source's words.
TaskData open_digits(const DataSpec& spec, const std::string& reason);

}  // namespace trireme::sets
