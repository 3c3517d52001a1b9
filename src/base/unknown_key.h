// What to do about a key of a file that nothing reads.
#pragma once

#include <set>
#include <string>

namespace trireme {

/// `did you mean "overlaps"?`, with why a key of the file itself was taken for one of a table (`in_file`: it was not
/// given to --set); "remove it" where nothing is near. `path` and `known` are dotted, tables among the known.
std::string advice_on_unknown_key(const std::string& path, const std::set<std::string>& known, bool in_file);

}  // namespace trireme
