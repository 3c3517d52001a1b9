// The files of bench/validation/data: comments, a head, then lines of cells between semicolons.
#pragma once

#include <string>
#include <vector>

namespace trireme::validation {

/// The cells of the lines that begin with a digit. Errors (run): the file cannot be opened.
std::vector<std::vector<std::string>> read_cells(const std::string& name);

}  // namespace trireme::validation
