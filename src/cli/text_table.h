// Columns of text for verbs that print lists.
#pragma once

#include <string>
#include <vector>

namespace trireme {

/// Columns of text under their titles, the last one as wide as it is; empty columns are left out. Columns in `right`
/// are aligned to the right.
std::string text_table(const std::vector<std::string>& titles, const std::vector<std::vector<std::string>>& rows,
                       const std::vector<size_t>& right = {});

}  // namespace trireme
