// The names that an experiment and a plan may use, with a line on each: the footer of the help of train and
// compare, and the lists of `trireme help`.
#pragma once

#include <string>
#include <vector>

namespace trireme {

/// "strategies", "models", ...: what known_names can list.
const std::vector<std::string>& name_topics();

/// Returns the names of a topic as their registry lists them, "" for an unknown one.
std::string known_names(const std::string& topic);

/// Returns the names of all topics.
std::string known_names();

}  // namespace trireme
