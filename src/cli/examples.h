// Commands that help pages and man pages end with.
#pragma once

#include <string>
#include <vector>

namespace trireme {

/// Two commands with this verb; `path`: "plan best", "" for the program. Empty for an unknown verb.
std::vector<std::string> examples_of(const std::string& path);

}  // namespace trireme
