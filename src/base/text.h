// Small helpers on words that several rooms need in their messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// Number of single-character insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`
/// (optimal string alignment).
int edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `word`, or "" where none is near enough to be what was meant.
std::string closest_match(std::string_view word, const std::vector<std::string>& candidates);

/// "a, b, c"
std::string join(const std::vector<std::string>& words, std::string_view separator = ", ");

/// The lines of a text, without their ends and without empty ones.
std::vector<std::string> lines_of(std::string_view text);

}  // namespace trireme
