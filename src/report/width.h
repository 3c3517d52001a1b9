// Text measured in columns of a terminal. Characters are UTF-8 and count as one column each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

int columns_of(std::string_view text);

/// `text` cut to at most `columns` columns; "…" marks a cut.
std::string cut_to(std::string_view text, int columns);

/// `text` with spaces after it (or, with `right`, before it) up to `columns`.
std::string pad_to(std::string text, int columns, bool right = false);

/// `text` broken between words into lines of at most `columns`; a longer word stays whole.
std::vector<std::string> wrap(std::string_view text, int columns);

}  // namespace trireme
