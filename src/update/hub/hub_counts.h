// Conversion of HubCounts to and from the numbers of a message.
#pragma once

#include <vector>

#include "trireme/hub.h"

namespace trireme {

std::vector<double> numbers_of(const HubCounts& counts);
/// Errors (run): the numbers are not counts.
HubCounts counts_from(const std::vector<double>& numbers);

}  // namespace trireme
