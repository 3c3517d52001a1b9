// Keys of a table that only some choices of another key accept: reports a key that the choice made does not accept.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trireme/config.h"

namespace trireme {

/// Each key with the choices that accept it.
using OwnKeys = std::vector<std::pair<std::string, std::vector<std::string>>>;

/// Errors (user): the table has a key of `keys` that `chosen` does not accept; the message lists the keys that it
/// accepts. `subject`: the choice's name in messages.
void refuse_keys_of_others(const ConfigTable& table, const OwnKeys& keys, const std::string& subject,
                           const std::string& chosen);

}  // namespace trireme
