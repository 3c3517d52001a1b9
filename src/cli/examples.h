// Commands that help pages and man pages end with.
#pragma once

#include <string>
#include <vector>

namespace trireme {

/// Two or more commands with this verb; before them those that write the files that they read. `path`: "plan best", ""
/// for the program. Empty for an unknown verb.
std::vector<std::string> examples_of(const std::string& path);

/// True if a command reads a file of the folder examples/.
bool name_examples(const std::vector<std::string>& commands);

/// Says where the folder examples/ is that the commands name.
inline constexpr const char* kWhereExamplesAre = "examples/ is in the sources; installed, in share/doc/trireme";

}  // namespace trireme
