// Small helpers for the texts of messages.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// Returns the number of single-character insertions, deletions, substitutions and swaps of neighbours that turn `a`
/// into `b` (optimal string alignment).
int edit_distance(std::string_view a, std::string_view b);

/// Returns the candidate nearest to `word`, or "" if none is near enough to be what the user meant.
std::string closest_match(std::string_view word, const std::vector<std::string>& candidates);

/// "a, b, c"
std::string join(const std::vector<std::string>& words, std::string_view separator = ", ");

/// "a, b and c"
std::string join_with_and(const std::vector<std::string>& words);

/// Returns the non-empty lines of a text, without line ends.
std::vector<std::string> lines_of(std::string_view text);

/// Returns the first line of an exception's text, without libtorch's C++ stack trace.
std::string first_line(const std::exception& error);

}  // namespace trireme
