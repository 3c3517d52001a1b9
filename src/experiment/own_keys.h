// Keys of a table that only some choices of another key take: an answer to a key of a choice that was not made.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trireme/config.h"

namespace trireme {

/// Each key with the choices that take it.
using OwnKeys = std::vector<std::pair<std::string, std::vector<std::string>>>;

/// Errors (user): the table has a key of `keys` that `chosen` does not take; names those that it does. `subject`: how a
/// message calls what was chosen.
void refuse_keys_of_others(const ConfigTable& table, const OwnKeys& keys, const std::string& subject,
                           const std::string& chosen);

}  // namespace trireme
