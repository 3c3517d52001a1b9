// `trireme checkpoints`: what a run's folder holds of them, and whether it is whole.
#pragma once

#include <filesystem>
#include <iosfwd>

namespace trireme {

/// A table. `path`: a run's folder or a folder of checkpoints. Errors (user): there are none.
int list_checkpoints(const std::filesystem::path& path, std::ostream& out);

/// Reads every byte of all of them, or of one; a line each. Returns 1 where anything is damaged.
int verify_checkpoints(const std::filesystem::path& path, std::ostream& out);

}  // namespace trireme
