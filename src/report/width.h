// Text measured in columns of a terminal. Characters are UTF-8 and count as one column each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

int columns_of(std::string_view text);

/// Returns `text` cut to at most `columns` columns; "…" marks the cut.
std::string cut_to(std::string_view text, int columns);

/// Returns `text` padded to `columns` with spaces after it, or before it if `right`.
std::string pad_to(std::string text, int columns, bool right = false);

/// Returns `text` broken between words into lines of at most `columns`. A longer word is not broken.
std::vector<std::string> wrap(std::string_view text, int columns);

}  // namespace trireme
