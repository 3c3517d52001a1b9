// trireme data: downloads and lists data sets.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>

namespace trireme {

/// Downloads a set into `data_dir`, or into the cache folder, and prints a progress bar (on a terminal) or plain lines.
/// Returns the exit code 0. Throws errors.
int data_get(const std::string& name, const std::optional<std::filesystem::path>& data_dir, std::ostream& out);

/// Prints the known sets and where each one was found.
int data_list(std::ostream& out, const std::optional<std::filesystem::path>& data_dir = std::nullopt);

}  // namespace trireme
