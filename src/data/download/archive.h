// Unpacks downloaded archives.
#pragma once

#include <filesystem>

namespace trireme {

/// Unpacks the regular files of a .tar, .tar.gz or .zip into `folder`. Each file appears whole or not at all. User
/// errors: a damaged archive; an entry that would be written outside the folder (absolute path, `..`, link) or that is
/// no file. Nothing of such an entry is written. Run error: the disk.
void unpack(const std::filesystem::path& archive, const std::filesystem::path& folder);

}  // namespace trireme
