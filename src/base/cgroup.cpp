#include "base/cgroup.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// Version 1 writes a number near 2^63 for "no limit".
constexpr int64_t kNoLimit = int64_t{1} << 60;

template <class T>
void tighten(std::optional<T>& limit, T value) {
  limit = limit ? std::min(*limit, value) : value;
}

std::optional<int64_t> read_number(const fs::path& path) {
  std::ifstream file(path);
  int64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

/// Version 2: cpu.max is "QUOTA PERIOD" or "max PERIOD", memory.max a number or "max".
void read_version_2(const fs::path& group, CgroupLimits& limits) {
  std::ifstream cpu(group / "cpu.max");
  double quota = 0, period = 0;
  if (cpu >> quota >> period && period > 0) tighten(limits.cores, quota / period);
  if (auto bytes = read_number(group / "memory.max")) tighten(limits.memory_bytes, *bytes);
}

void read_version_1(const fs::path& group, CgroupLimits& limits) {
  auto quota = read_number(group / "cpu.cfs_quota_us"), period = read_number(group / "cpu.cfs_period_us");
  if (quota && period && *quota > 0 && *period > 0) tighten(limits.cores, double(*quota) / double(*period));
  auto bytes = read_number(group / "memory.limit_in_bytes");
  if (bytes && *bytes < kNoLimit) tighten(limits.memory_bytes, *bytes);
}

}  // namespace

CgroupLimits cgroup_limits(const fs::path& membership, const fs::path& mount) {
  CgroupLimits limits;
  std::ifstream file(membership);
  // The lines have the form "id:controllers:/path". Version 2 has no controllers.
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string id, controllers, group;
    if (!std::getline(fields, id, ':') || !std::getline(fields, controllers, ':') || !std::getline(fields, group))
      continue;
    // In a container, the process's group may be mounted at the root while the path here is the host's. So try every
    // parent.
    for (fs::path path = fs::path(group).relative_path();; path = path.parent_path()) {
      if (controllers.empty()) {
        read_version_2(mount / path, limits);
        read_version_2(mount / "unified" / path, limits);
      } else {
        read_version_1(mount / controllers / path, limits);
      }
      if (path.empty()) break;
    }
  }
  return limits;
}

}  // namespace trireme
