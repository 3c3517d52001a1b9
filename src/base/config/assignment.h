// Assignments of the command line: optimizer.learning_rate=0.1, data.columns."a b"="numeric".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/config/key_path.h"

namespace trireme {

struct Assignment {
  std::vector<PathPart> key;  ///< without indices
  std::string_view value;     ///< part of the text that was read
};

/// Errors (user), which name `origin`: the text is not an assignment, or its key has an index.
Assignment read_assignment(std::string_view assignment, const std::string& origin);

}  // namespace trireme
