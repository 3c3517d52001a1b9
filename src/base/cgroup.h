// Limits that Linux control groups (containers, Slurm, systemd) put on this process, version 1 and 2.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace trireme {

struct CgroupLimits {
  std::optional<double> cores;  ///< CPU quota over its period: 1.5 means one and a half cores' time
  std::optional<int64_t> memory_bytes;
};

/// The tightest limits of the process's groups and those above them. Nullopt where nothing limits or nothing can be
/// read. The paths are parameters for tests.
CgroupLimits cgroup_limits(const std::filesystem::path& membership = "/proc/self/cgroup",
                           const std::filesystem::path& mount = "/sys/fs/cgroup");

}  // namespace trireme
