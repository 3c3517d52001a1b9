// The checksums of a zip archive's entries. libtorch's reader does not compare them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace trireme {

/// Returns the CRC-32 of each entry of a zip archive by its path, from the directory at the archive's end (APPNOTE.TXT
/// of PKWARE, 4.3.12 ff.; Zip64 too). Stops at the first malformed part of the directory: entries after it have no
/// checksum.
std::map<std::string, uint32_t> zip_checksums(const std::filesystem::path& path);

}  // namespace trireme
