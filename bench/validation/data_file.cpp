#include "validation/data_file.h"

#include <cctype>
#include <fstream>
#include <sstream>

#include "trireme/error.h"

namespace trireme::validation {

std::vector<std::vector<std::string>> read_cells(const std::string& name) {
  const std::string path = std::string(TRIREME_VALIDATION_DATA) + "/" + name;
  std::ifstream file(path);
  if (!file) fail_run({path, "cannot be opened", "", "run from a checkout that has it"});
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || !std::isdigit(static_cast<unsigned char>(line.front()))) continue;
    std::vector<std::string>& row = rows.emplace_back();
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, ';');) row.push_back(cell);
  }
  return rows;
}

}  // namespace trireme::validation
