#include "experiment/own_keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace trireme {

void refuse_keys_of_others(const ConfigTable& table, const OwnKeys& keys, const std::string& subject,
                           const std::string& chosen) {
  const auto takes = [&](const std::vector<std::string>& takers) {
    return std::find(takers.begin(), takers.end(), chosen) != takers.end();
  };
  std::vector<std::string> own;
  for (const auto& [key, takers] : keys)
    if (takes(takers)) own.push_back(key);
  const std::vector<std::string> given = table.keys();
  for (const auto& [key, takers] : keys) {
    if (takes(takers) || std::find(given.begin(), given.end(), key) == given.end()) continue;
    table.fail(key,
               fmt::format("{} does not take it, {} {}", subject, join(takers), takers.size() == 1 ? "does" : "do"),
               own.empty() ? "remove it" : fmt::format("its own keys are {}", join(own)));
  }
}

}  // namespace trireme
