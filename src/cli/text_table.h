// Text tables for verbs that print lists.
#pragma once

#include <string>
#include <vector>

namespace trireme {

/// Returns columns of text under their titles. The last column is not padded; empty columns are omitted. Columns in
/// `right` are aligned to the right.
std::string text_table(const std::vector<std::string>& titles, const std::vector<std::vector<std::string>>& rows,
                       const std::vector<size_t>& right = {});

}  // namespace trireme
