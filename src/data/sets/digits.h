// Digits drawn by Trireme. They also replace MNIST if it is not found.
#pragma once

#include <string>

#include "data/data_spec.h"
#include "trireme/dataset.h"

namespace trireme::sets {

/// `reason` follows "generated digits" in TaskData::source.
TaskData open_digits(const DataSpec& spec, const std::string& reason);

}  // namespace trireme::sets
