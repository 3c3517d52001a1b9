// Text measured in columns of a terminal. Characters are UTF-8 and count as one column each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

int columns_of(std::string_view text);

/// Width of text for readers that are no terminal.
constexpr int kUsualColumns = 80;

/// Returns the width, in columns, of the terminal behind the open file `descriptor`. If the file is not a terminal or
/// the terminal does not tell its width: the number in the environment variable COLUMNS, or else `otherwise`.
int columns_of_output(int descriptor, int otherwise = kUsualColumns);

/// Returns `text` cut to at most `columns` columns; "…" marks the cut.
std::string cut_to(std::string_view text, int columns);

/// Returns `text` padded to `columns` with spaces after it, or before it if `right`.
std::string pad_to(std::string text, int columns, bool right = false);

/// Returns `text` broken between words into lines of at most `columns`. A longer word is not broken.
std::vector<std::string> wrap(std::string_view text, int columns);

/// Returns `text` with each of its lines broken between words to at most `columns`. What continues a line is indented
/// by `indent`. Without a width (`columns` is not positive) the text stays as it is.
std::string wrap_lines(std::string_view text, int columns, int indent = 2);

}  // namespace trireme
