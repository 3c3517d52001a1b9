// Describes in words how each column of a table is used.
#pragma once

#include <string>
#include <vector>

#include "model/input_form.h"

namespace trireme {

/// Returns the lines of a table: of each column kind, categories, missing values and scaling, then the target and the
/// columns that are left out. Of more than 16 columns only the first are listed, and the others are counted by kind.
/// Empty for a set that is no table.
std::vector<std::string> column_table(const InputForm& form);

}  // namespace trireme
