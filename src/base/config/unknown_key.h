// Suggestions for keys of a file that no getter reads.
#pragma once

#include <set>
#include <string>

namespace trireme {

/// Returns `did you mean "overlaps"?`, or "remove it" if no known key is near. With `in_file` (the key is in the file,
/// not in --set) it also explains why a top-level key below a [table] header was read as a key of that table. `path`
/// and `known` are dotted; `known` includes tables.
std::string advice_on_unknown_key(const std::string& path, const std::set<std::string>& known, bool in_file);

}  // namespace trireme
