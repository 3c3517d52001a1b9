// Text tables for verbs that print lists.
#pragma once

#include <string>
#include <vector>

namespace trireme {

/// Returns columns of text under their titles. The last column is not padded; empty columns are omitted. Columns in
/// `right` are aligned to the right. Lines have at most `columns` columns (0: the width of standard output): the text
/// of the last column is wrapped, and a wider table continues in further blocks below, after an empty line, each with
/// the first column. A single column that is too wide by itself stays whole.
std::string text_table(const std::vector<std::string>& titles, const std::vector<std::vector<std::string>>& rows,
                       const std::vector<size_t>& right = {}, int columns = 0);

}  // namespace trireme
