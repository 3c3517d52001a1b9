// What a replica's exchanges took, as numbers of a message.
#pragma once

#include <vector>

#include "trireme/hub.h"

namespace trireme {

std::vector<double> numbers_of(const HubCounts& counts);
/// Errors (run): numbers that are none of those.
HubCounts counts_from(const std::vector<double>& numbers);

}  // namespace trireme
